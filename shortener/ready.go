package shortener

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pingTimeout bounds one Ping, so that a store that hangs counts as unavailable.
	pingTimeout = time.Second
	// refusalMemory is how long a refused creation makes the service unready, unless a
	// later one succeeds. It is bounded because a load balancer sends no creations to an
	// unready service, and only a creation could clear the refusal.
	refusalMemory = 5 * time.Second
)

var errRefusing = errors.New("recent creations were refused")

// readiness decides whether the service can create and resolve links. It combines a
// ping of the store with the result of the last creation: a store may answer and yet
// accept no links, for lack of disk space or of keys.
type readiness struct {
	ping    func(context.Context) error
	now     func() time.Time
	refused atomic.Pointer[time.Time] // time of the last creation if it was refused, nil if it succeeded

	mu  sync.Mutex // held during a ping: concurrent callers share its result
	at  time.Time  // when err became known
	err error
}

// check returns the result of the last ping, which is valid for Freshness, or pings
// again. Any client may call it at any rate, and a ping occupies a writer.
func (r *readiness) check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if recent(r.at, r.now()) {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	err := r.ping(ctx)
	if err != nil {
		err = unavailable(fmt.Errorf("the link store does not answer: %w", err))
	}
	if at := r.refused.Load(); err == nil && at != nil && r.now().Sub(*at) < refusalMemory {
		err = unavailable(errRefusing)
	}
	// The time after the ping: otherwise every caller that waited for a ping that hangs
	// would start another one.
	r.at, r.err = r.now(), err
	return err
}

// created records the result of a creation. A full queue, a URL whose codes are all in
// use and a client that disconnects do not predict the result of later creations.
func (r *readiness) created(err error) {
	switch {
	case err == nil:
		if r.refused.Load() != nil { // a load is cheaper than a store for every creation
			r.refused.Store(nil)
		}
	case !errors.Is(err, errQueueFull) && !errors.Is(err, errNoFurtherKey) && !errors.Is(err, context.Canceled):
		now := r.now()
		r.refused.Store(&now)
	}
}
