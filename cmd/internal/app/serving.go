package app

import (
	"context"
	"sync"
	"time"
)

// servingInterval is how exactly it is known since when keys come from where they do.
const servingInterval = time.Second

// servingWatch remembers since when keys come from where they come from.
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

// look tells where the next key would come from, and since when.
func (w *servingWatch) look() (string, time.Time) {
	from := w.from()
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != w.last {
		w.last, w.since = from, time.Now()
	}
	return w.last, w.since
}
