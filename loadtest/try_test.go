package loadtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// What is tried instead of a creation is due as often, and counted alike.
func TestTry(t *testing.T) {
	t.Parallel()
	schedule := Schedule{Rate: 1000, Duration: 50 * time.Millisecond}
	broken := errors.New("broken")
	var n atomic.Int64
	recorder := NewRecorder()
	err := Try(t.Context(), schedule, recorder, func(context.Context) error {
		if n.Add(1)%10 == 0 {
			return broken
		}
		return nil
	})
	if f := recorder.Figures(); !errors.Is(err, broken) || f.Acknowledged != 45 || f.Refused != 5 || f.Latency.Max == 0 {
		t.Errorf("%v, %+v; want the error, 45 done and 5 failed", err, f)
	}
}
