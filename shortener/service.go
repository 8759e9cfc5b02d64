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

const (
	// retryAfter is the advice that goes with every refusal for now: whatever is away
	// is asked again that often.
	retryAfter = time.Second
	// readyTimeout bounds one Ping, so that a store that hangs is not one that is well.
	readyTimeout = time.Second
	// refusalCounts is how long a creation that was refused speaks against the service,
	// unless one succeeds: not for ever, for a service that nobody is sent to would never
	// get to show that it is well.
	refusalCounts = 5 * time.Second
)

var errRefusing = errors.New("creations are being refused")

// Service creates and resolves links. All its methods may be called concurrently.
type Service struct {
	store     Store
	keys      Keys
	metrics   *Metrics
	now       func() time.Time
	cache     *cache
	committer *committer
	ready     readiness
	refused   atomic.Pointer[time.Time] // when a creation last failed for no fault of its user; nil after one that did not
}

// readiness is what the last Ping said; it is good for Freshness, because anybody may
// ask as often as they like and a Ping takes a turn of the writers. The lock is held
// during a Ping, so that all who ask meanwhile share its answer.
type readiness struct {
	mu  sync.Mutex
	at  time.Time // when err became known
	err error
}

// Config is what a Service is made of.
type Config struct {
	Store     Store
	Keys      Keys
	Metrics   *Metrics         // nil means that nobody reads them
	CacheSize int              // links kept in memory, one with a long URL counting as several; 0 means the default
	QueueSize int              // creations waiting for a commit; 0 means the default
	Now       func() time.Time // nil means time.Now
}

// New starts a service; Close ends it. The store must outlive it.
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
	}
}

// Resolve finds the live link of code: ErrNotFound, ErrGone, or an *UnavailableError.
// A link that was deleted may be answered for one second more, and for as long as the
// store is away; one that has expired, never. It waits for the store for less than a
// second, and for a code in the cache not at all.
func (s *Service) Resolve(ctx context.Context, code string) (Link, error) {
	return s.cache.get(ctx, code)
}

// Ready fails with an *UnavailableError when links cannot be made or looked up. It
// asks the store once a second at most and otherwise repeats the last answer. It waits
// for a second at most; ctx does not end that earlier, for the sake of all who wait.
func (s *Service) Ready(ctx context.Context) error {
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	if recent(s.ready.at, s.now()) {
		return s.ready.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	err := s.store.Ping(ctx)
	if err != nil {
		err = unavailable(fmt.Errorf("the link store does not answer: %w", err))
	}
	// A store may answer and yet take no links, for want of space or of keys.
	if at := s.refused.Load(); err == nil && at != nil && s.now().Sub(*at) < refusalCounts {
		err = unavailable(errRefusing)
	}
	// The time after the Ping: otherwise those who waited for one that hung would all
	// repeat it, one after the other.
	s.ready.at, s.ready.err = s.now(), err
	return err
}

// Close commits what is queued and stops, or gives up on the queue when ctx ends; no
// Create may be called any more.
func (s *Service) Close(ctx context.Context) error {
	return s.committer.close(ctx)
}

// unavailable wraps what went wrong underneath, unless it says already when to try
// again, or trying again is no use: ErrRefused is a link that should have been checked
// better here.
func unavailable(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); ok || errors.Is(err, ErrRefused) {
		return err
	}
	return &UnavailableError{RetryAfter: retryAfter, Err: err}
}
