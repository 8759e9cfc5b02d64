package qr

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func drawn(c *Code) ([]byte, error) { return c.SVG(256, 4), nil }

// The number of drawings at the same time is limited. A request that waits too long fails.
func TestQRDrawerLimitsConcurrentDrawings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDrawer()
		for range cap(d.turns) {
			d.turns <- struct{}{} // a drawing in progress
		}
		began := time.Now()
		_, err := d.Draw(t.Context(), "https://go.dev", M, drawn)
		if _, ok := errors.AsType[*BusyError](err); !ok || !errors.Is(err, errDrawing) || time.Since(began) != drawPatience {
			t.Errorf("the error after %v is %v", time.Since(began), err)
		}
		closed, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Draw(closed, "https://go.dev", M, drawn); !errors.Is(err, context.Canceled) {
			t.Errorf("the error of a closed request is %v", err)
		}
		<-d.turns
		for range 3 { // each drawing gives its turn back
			if _, err := d.Draw(t.Context(), "https://go.dev", M, drawn); err != nil {
				t.Error(err)
			}
		}
	})
}
