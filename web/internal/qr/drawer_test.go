package qr

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/slots"
)

func drawn(c *Code) ([]byte, error) { return c.SVG(256, 4), nil }

// clientAt returns the client with the address 192.0.2.n.
func clientAt(n byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 32)
}

// The number of drawings at the same time is limited. A request that waits too long fails.
func TestQRDrawerLimitsConcurrentDrawings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDrawer()
		var ends []func()
		for n := range max(1, runtime.GOMAXPROCS(0)/2) {
			end, err := d.turns.Begin(t.Context(), clientAt(byte(n)), 0) // a drawing in progress
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		began := time.Now()
		_, err := d.Draw(t.Context(), clientAt(255), "https://go.dev", M, drawn)
		if !errors.Is(err, slots.ErrBusy) || time.Since(began) != drawPatience {
			t.Errorf("the error after %v is %v", time.Since(began), err)
		}
		closed, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Draw(closed, clientAt(255), "https://go.dev", M, drawn); !errors.Is(err, context.Canceled) {
			t.Errorf("the error of a closed request is %v", err)
		}
		ends[0]()
		for range 3 { // each drawing gives its turn back
			if _, err := d.Draw(t.Context(), clientAt(255), "https://go.dev", M, drawn); err != nil {
				t.Error(err)
			}
		}
	})
}

// While one client waits for many QR codes, another client waits for at most one drawing of the first client.
func TestQRDrawerServesOtherClientsBesideOneWithManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const takes = 300 * time.Millisecond
		d := &Drawer{turns: slots.New[netip.Prefix](1)}
		draw := func(c *Code) ([]byte, error) {
			time.Sleep(takes)
			return drawn(c)
		}
		results := make(chan error, 20)
		for range cap(results) {
			go func() {
				_, err := d.Draw(context.Background(), clientAt(1), "https://go.dev", M, draw)
				results <- err
			}()
		}
		synctest.Wait()
		for range 3 {
			began := time.Now()
			if _, err := d.Draw(t.Context(), clientAt(2), "https://go.dev", M, draw); err != nil || time.Since(began) > 2*takes {
				t.Errorf("the QR code of the other client came after %v with the error %v, want at most %v", time.Since(began), err, 2*takes)
			}
		}
		for range cap(results) {
			if err := <-results; err != nil && !errors.Is(err, slots.ErrBusy) {
				t.Error(err)
			}
		}
	})
}
