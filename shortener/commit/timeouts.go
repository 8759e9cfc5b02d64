package commit

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// createTimeout is the time limit of one creation with all its attempts.
	createTimeout = 5 * time.Second
	// sharing is the time for which new creations share one context.
	sharing = 100 * time.Millisecond
)

// timeouts gives each creation a context. The context ends createTimeout after the start of the creation, or earlier
// by at most the duration sharing. Creations that begin at about the same time share a context. A separate context for
// each creation would be expensive, because making a context takes about as long as validating a URL. The zero value
// is ready for use.
type timeouts struct{ latest atomic.Pointer[sharedTimeout] }

type sharedTimeout struct {
	context.Context
	cancel context.CancelFunc
	begun  time.Time
}

func (t *timeouts) context() *sharedTimeout {
	latest := t.latest.Load()
	if latest != nil && time.Since(latest.begun) < sharing {
		return latest
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	next := &sharedTimeout{ctx, cancel, time.Now()}
	if !t.latest.CompareAndSwap(latest, next) { // a concurrent creation was first
		cancel()
		return t.latest.Load()
	}
	return next
}

// close ends the latest context. The earlier contexts end after their timeouts.
func (t *timeouts) close() {
	if latest := t.latest.Load(); latest != nil {
		latest.cancel()
	}
}
