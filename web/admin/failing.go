package admin

import (
	"context"
	"sync/atomic"
	"time"
)

// stateFailing is the state that the dashboard shows while the program cannot do its work. The dashboard then does
// not show the state of the pool. /status never has this state.
const stateFailing = "failing"

// readyInterval is the time between two checks of the readiness.
const readyInterval = time.Second

// failing records whether the program cannot do its work. It is safe for concurrent use.
type failing struct {
	since atomic.Pointer[time.Time] // time of the first check that failed; nil while the program is ready
}

// watch calls ready once a second until ctx ends. The first call is after a second, because a program that starts is not ready
// at once.
func (f *failing) watch(ctx context.Context, ready func(context.Context) error) {
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
		f.note(err)
	}
}

func (f *failing) note(err error) {
	switch {
	case err == nil:
		f.since.Store(nil)
	case f.since.Load() == nil:
		now := time.Now()
		f.since.Store(&now)
	}
}

// shown returns the status that the dashboard shows.
func (h *Handler) shown() Status {
	s := h.cfg.Status()
	if since := h.failing.since.Load(); since != nil {
		s.State, s.Since = stateFailing, *since
	}
	return s
}
