package shortener

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// retryAfter is the advice that goes with every refusal for now: whatever is away
	// is asked again that often.
	retryAfter = time.Second
	// readyTimeout bounds the answer of Ready, so that a store that hangs is not one that is well.
	readyTimeout = time.Second
)

// Service creates and resolves links. All its methods may be called concurrently.
type Service struct {
	store     Store
	keys      Keys
	metrics   *Metrics
	now       func() time.Time
	cache     *cache
	committer *committer
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
// A link that was deleted by another process may be answered for one second more,
// and for as long as the store is away; one that has expired, never. It waits for
// the store for less than a second, and for a code in the cache not at all.
func (s *Service) Resolve(ctx context.Context, code string) (Link, error) {
	return s.cache.get(ctx, code)
}

// Delete makes the link of code a tombstone: ErrNotFound, or an *UnavailableError.
// From its return on this Service answers ErrGone.
func (s *Service) Delete(ctx context.Context, code string) error {
	err := s.store.Delete(ctx, code, stamp(s.now()))
	// Also after an error: the row may be a tombstone by now.
	s.cache.drop(code)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return unavailable(err)
	}
	return err
}

// Ready fails when links can neither be made nor looked up, after a second at most.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("the link store does not answer: %w", err)
	}
	return nil
}

// Close commits what is queued and stops, or gives up on the queue when ctx ends; no
// Create may be called any more.
func (s *Service) Close(ctx context.Context) error {
	return s.committer.close(ctx)
}

// unavailable wraps what went wrong underneath, unless it says already when to try again.
func unavailable(err error) error {
	var refusal *UnavailableError
	if errors.As(err, &refusal) {
		return err
	}
	return &UnavailableError{RetryAfter: retryAfter, Err: err}
}
