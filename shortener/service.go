package shortener

import (
	"context"
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
