package app

import (
	"context"
	"sync"
	"time"
)

// servingInterval is the precision of the time at which the serving source changed.
const servingInterval = time.Second

// servingWatch records when the current source of keys took over.
type servingWatch struct {
	from func() string // "batch", "fallback" or "none"

	mu    sync.Mutex
	last  string
	since time.Time
}

func (w *servingWatch) run(ctx context.Context) error {
	tick := time.NewTicker(servingInterval)
	defer tick.Stop()
	for {
		w.look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look returns where the next key would come from, and since when.
func (w *servingWatch) look() (string, time.Time) {
	from := w.from()
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != w.last {
		w.last, w.since = from, time.Now()
	}
	return w.last, w.since
}
