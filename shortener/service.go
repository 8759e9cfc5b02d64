package shortener

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Service creates and resolves links. All its methods may be called concurrently.
type Service struct {
	store     Store
	keys      Keys
	metrics   *Metrics
	now       func() time.Time
	cache     *cache
	committer *committer
	readiness readiness
}

// Config holds the parts and settings of a Service. Store and Keys are required.
type Config struct {
	Store     Store
	Keys      Keys
	Metrics   *Metrics         // nil: the metrics are not exported
	CacheSize int              // links kept in memory; a link with a long URL counts as several; 0: the default, 65,536
	QueueSize int              // creations that may wait for a commit; 0: the default, 4,096
	Now       func() time.Time // nil: time.Now
}

// New starts a service. Close stops it. The store must stay open until then.
func New(cfg Config) *Service {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{
		store:     cfg.Store,
		keys:      cfg.Keys,
		metrics:   cfg.Metrics,
		now:       cfg.Now,
		cache:     newCache(cfg.CacheSize, cfg.Store.Lookup, cfg.Now),
		committer: newCommitter(cfg.Store, cfg.Metrics, cfg.QueueSize),
		readiness: readiness{ping: cfg.Store.Ping, now: cfg.Now},
	}
}

// Resolve returns the live link of code. It fails with ErrNotFound, ErrGone or an
// *UnavailableError. A deleted link may be returned for up to one second after its
// deletion, and longer while the store is unavailable. An expired link is never
// returned. Resolve waits less than a second for the store; for a code in the cache it
// does not wait.
func (s *Service) Resolve(ctx context.Context, code string) (Link, error) {
	return s.cache.get(ctx, code)
}

// Ready fails with an *UnavailableError while links cannot be created or resolved. It
// pings the store at most once a second and otherwise repeats the last result. It
// blocks for at most one second. The end of ctx does not shorten that, because
// concurrent callers share the ping.
func (s *Service) Ready(ctx context.Context) error { return s.readiness.check(ctx) }

// Close commits the queued creations and stops the service. When ctx ends first, Close
// interrupts the commits and returns an error. Create must not be called afterwards.
func (s *Service) Close(ctx context.Context) error {
	return s.committer.close(ctx)
}

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
