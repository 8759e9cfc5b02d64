package admin

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// stateFailing is the state that the dashboard shows while the program cannot do its work. In this state, the
// dashboard does not show the state of the pool. /status never has this state.
const stateFailing = "failing"

const (
	// readyInterval is the time between two checks of the readiness.
	readyInterval = time.Second
	// startTime is the time that a program may take to become ready. In this time, a program that has not been ready
	// yet does not count as failing. For example, the worker of an empty pool needs more than a second until the pool
	// has an epoch and can be read.
	startTime = 3 * time.Second
)

// failing records since when the program cannot do its work. It is safe for concurrent use.
type failing struct {
	since atomic.Pointer[time.Time] // time of the first failed check since the last successful one; nil while the program is ready or starts
	ended atomic.Pointer[time.Time] // time of the last check that succeeded after a failed one; nil if there was none
}

// watch calls ready once a second until ctx ends. It ignores errors while the program starts.
func (f *failing) watch(ctx context.Context, ready func(context.Context) error) {
	start, started := time.Now(), false
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := ready(ctx)
		if ctx.Err() != nil {
			return
		}
		if started = started || err == nil || time.Since(start) >= startTime; started {
			f.note(err)
		}
	}
}

func (f *failing) note(err error) {
	now := time.Now()
	switch since := f.since.Load(); {
	case err == nil && since != nil:
		f.ended.Store(&now) // set before f.since; otherwise Handler.shown could read a nil f.since and an earlier f.ended
		f.since.Store(nil)
	case err != nil && since == nil:
		f.since.Store(&now)
	}
}

// ReadyGauge returns a metric that shows whether the program can do its work. Its value is correct only while Run runs.
func (h *Handler) ReadyGauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "keypool_ready",
		Help: "1 while the program can do its work, otherwise 0. The work of a server is to create and resolve links. The work of kgs is to read the ledger if it serves keys, and otherwise the pool.",
	}, func() float64 { return oneIf(h.failing.since.Load() == nil) })
}

// shown returns the status that the dashboard shows. The member Since is the time at which the dashboard began to show
// the State. This time may be later than the time at which the pool entered the state.
func (h *Handler) shown() Status {
	s := h.cfg.Status()
	if since := h.failing.since.Load(); since != nil {
		s.State, s.Since = stateFailing, *since
	} else if ended := h.failing.ended.Load(); ended != nil && ended.After(s.Since) {
		s.Since = *ended
	}
	return s
}
