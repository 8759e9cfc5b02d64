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
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// While creations fail, the dashboard shows the state failing instead of the state of the pool. It also shows the time
// at which it began to show its present state. /status still shows the state of the pool.
func TestDashboardShowsThatCreationsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		pool := full()
		pool.Since = time.Now() // the state of the pool never changes
		h := New(Config{
			Gatherer: prometheus.NewRegistry(), Status: func() Status { return pool },
			Ready: func(context.Context) error {
				if down.Load() {
					return errors.New("the link store does not answer")
				}
				return nil
			},
		})
		stop := run(t, h)
		defer stop()
		for round, tt := range []struct {
			down  bool
			state string
		}{{false, "ok"}, {true, "failing"}, {false, "ok"}} {
			down.Store(tt.down)
			changed := time.Now()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			page := get(t, h, "/").Body.String()
			if !strings.Contains(page, `class="state `+tt.state+`"`) || strings.Contains(page, `<dt>Creations</dt><dd class="bad">fail</dd>`) != tt.down {
				t.Errorf("down = %v: the page has another state than %s, or no row for creations:\n%s", tt.down, tt.state, page)
			}
			if got := newest(t, h.history).State; got != tt.state {
				t.Errorf("down = %v: the newest sample has the state %s, want %s", tt.down, got, tt.state)
			}
			if since := h.shown().Since; round > 0 && (since.Before(changed) || since.After(changed.Add(2*readyInterval))) {
				t.Errorf("down = %v since %v: the page shows the state since %v", tt.down, changed, since)
			}
			if ready := testutil.ToFloat64(h.ReadyGauge()); ready != oneIf(!tt.down) {
				t.Errorf("down = %v: keypool_ready is %v", tt.down, ready)
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

// During its first three seconds, a program that has not been ready yet does not count as failing. If the program is still
// not ready after these three seconds, it counts as failing.
func TestDashboardShowsNoFailureWhileProgramStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			ready time.Duration // time from the start until the program is ready
			fails bool
		}{{"at once", 0, false}, {"after 2.5 seconds", 2500 * time.Millisecond, false}, {"never", time.Hour, true}} {
			start := time.Now()
			h := New(Config{
				Gatherer: prometheus.NewRegistry(), Status: full,
				Ready: func(context.Context) error {
					if time.Since(start) < tt.ready {
						return errors.New("the pool has no epoch")
					}
					return nil
				},
			})
			stop := run(t, h)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			failed := false
			for _, e := range h.history.after(0).events {
				failed = failed || strings.Contains(string(e.text), `"state":"failing"`)
			}
			stop()
			if failed != tt.fails {
				t.Errorf("ready %s: the samples have the state failing: %v, want %v", tt.name, failed, tt.fails)
			}
		}
	})
}

// If a program was ready and then is not ready any more, it counts as failing at once, even in its first three seconds.
func TestDashboardShowsFailureAtOnceIfProgramWasReadyBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		h := New(Config{Gatherer: prometheus.NewRegistry(), Status: full, Ready: func(context.Context) error {
			if down.Load() {
				return errors.New("down")
			}
			return nil
		}})
		defer run(t, h)()
		time.Sleep(readyInterval + readyInterval/2)
		down.Store(true)
		time.Sleep(readyInterval)
		synctest.Wait()
		if state := h.shown().State; state != stateFailing {
			t.Errorf("the state is %s, want %s", state, stateFailing)
		}
	})
}
