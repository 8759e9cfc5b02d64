package admin

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The dashboard shows that creations fail, whatever the state of the pool is. /status still shows the state of the
// pool.
func TestDashboardShowsThatCreationsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		h := New(Config{
			Gatherer: prometheus.NewRegistry(), Status: full,
			Ready: func(context.Context) error {
				if down.Load() {
					return errors.New("the link store does not answer")
				}
				return nil
			},
		})
		stop := run(t, h)
		defer stop()
		for _, tt := range []struct {
			down  bool
			state string
		}{{false, "ok"}, {true, "failing"}, {false, "ok"}} {
			down.Store(tt.down)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			page := get(t, h, "/").Body.String()
			if !strings.Contains(page, `class="state `+tt.state+`"`) || strings.Contains(page, `<dt>Creations</dt><dd class="bad">fail</dd>`) != tt.down {
				t.Errorf("down = %v: the page has another state than %s, or no row for creations:\n%s", tt.down, tt.state, page)
			}
			if got := newest(t, h.history).State; got != tt.state {
				t.Errorf("down = %v: the newest sample has the state %s, want %s", tt.down, got, tt.state)
			}
			if status := get(t, h, "/status").Body.String(); !strings.Contains(status, `"state":"ok"`) {
				t.Errorf("down = %v: /status has another state than the pool: %s", tt.down, status)
			}
		}
		if since := h.failing.since.Load(); since != nil {
			t.Errorf("the program has failed since %v, want a program that is ready", since)
		}
	})
}
