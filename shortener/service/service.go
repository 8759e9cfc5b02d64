// Package service creates, resolves and manages short links. Its vocabulary is that of package shortener, and:
//
//   - A creation is one call of [Service.Create] or [Service.CreateOnce].
//   - An attempt is one insert of a link with one key. After a conflict, the creation makes another attempt.
//   - A look-up is a read of the store for one code.
//
// These invariants also hold when the store or a key source fails:
//
//   - A creation is acknowledged only after its row is durable.
//   - No code is looked up before it is inserted. [Service.Suggest] looks codes up, but only to give advice.
//
// A creation passes through [Service.Create], package commit with [shortener.Keys], and the [shortener.Store]. A redirect passes through [Service.Resolve], the cache
// (cache.go) and the store.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener"
	"keypool/shortener/commit"
	"keypool/shortener/destination"
)

// Service creates and resolves links. All its methods may be called concurrently.
type Service struct {
	store     shortener.Store
	metrics   *Metrics
	now       func() time.Time
	cache     *cache
	commits   *commit.Parts
	reads     *Slots // for lists and queries for visits
	readiness readiness

	destinations destination.Rules
}

// Config holds the parts and settings of a Service. Store and Keys are required.
type Config struct {
	Store     shortener.Store
	Keys      shortener.Keys
	Placement shortener.Placement // where the links of Store live; if nil, Store has one part
	Lookup    Lookup              // look-ups of redirects; if nil, the Lookup of Store
	Metrics   *Metrics            // if nil, the metrics are not exported
	CacheSize int                 // links in memory, DefaultCacheSize if 0; a link with a URL of 256 bytes or more counts as several links
	QueueSize int                 // creations that may wait for a commit in each part of Store, 4,096 if 0
	Readers   int                 // lists and queries for visits at the same time, defaultReaders if 0
	OwnHosts  *destination.Hosts  // names of this service, besides the origin of a request; a link must not lead to them
	Now       func() time.Time    // if nil, time.Now
}

// Lookup returns the row of code, as the Lookup of a [shortener.Store] does. It finds every link of an Insert that returned
// before, but the URL, the expiry, the deletion and the details of the link may be older.
type Lookup func(ctx context.Context, code string) (shortener.Link, error)

// New starts a service. Close stops it. The store must stay open until Close returns.
func New(cfg Config) *Service {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Lookup == nil {
		cfg.Lookup = cfg.Store.Lookup
	}
	if cfg.Placement == nil {
		cfg.Placement = shortener.OnePart{}
	}
	return &Service{
		store:   cfg.Store,
		metrics: cfg.Metrics,
		now:     cfg.Now,
		cache:   newCache(cfg.CacheSize, cfg.Lookup, cfg.Placement, cfg.Now),
		commits: commit.New(commit.Config{
			Store: cfg.Store, Placement: cfg.Placement, Keys: cfg.Keys, Metrics: cfg.Metrics.commits, QueueSize: cfg.QueueSize,
		}),
		reads:     NewSlots(cmp.Or(cfg.Readers, defaultReaders)),
		readiness: readiness{ping: cfg.Store.Ping, now: cfg.Now},

		destinations: destination.Rules{Own: cfg.OwnHosts},
	}
}

// Block replaces the block list. From now on, a creation fails if its URL leads to one of these hosts or to
// a subdomain of one, and links that lead there do not resolve. If a host is no longer blocked, its links resolve again.
func (s *Service) Block(hosts *destination.Hosts) { s.destinations.Block(hosts) }

// Resolve returns the live link of code, without its title, tags and first URL. The link has the time of its last change only
// if its URL has changed. Resolve fails with ErrNotFound, ErrGone, ErrLinkBlocked or an
// *UnavailableError. A deleted link may be returned for up to Freshness after its
// deletion, plus the lag of a replica, and longer while the store is unavailable. An expired link is never
// returned. Resolve does not wait for a link that was looked up within the last 0.9 s (Freshness).
// Otherwise it waits up to 0.9 s for a look-up. If it joined a look-up of another caller, and
// that look-up found no link, it makes a second look-up of up to 0.9 s.
func (s *Service) Resolve(ctx context.Context, code string) (shortener.Link, error) {
	link, err := s.cache.get(ctx, code)
	if err == nil && s.destinations.Blocks(link.URL) {
		return shortener.Link{}, shortener.ErrLinkBlocked
	}
	return link, err
}

// Ready fails with an *UnavailableError while links cannot be created or resolved. It
// pings the store at most once a second and otherwise returns the last result. It
// blocks for at most one second, or with SQLite up to five seconds while another process holds the
// write lock. It may block after ctx ends, because concurrent callers share the ping.
func (s *Service) Ready(ctx context.Context) error { return s.readiness.check(ctx) }

// Close commits the queued creations and stops the service. If ctx ends before all commits
// are done, Close interrupts the commits and returns an error. SQLite completes a commit that has begun,
// and Close then waits for it. Create must not be called after Close.
func (s *Service) Close(ctx context.Context) error { return s.commits.Close(ctx) }

const (
	// pingTimeout is the time limit of one Ping, after which the store counts as unavailable.
	pingTimeout = time.Second
	// refusalMemory is how long the service is unready after a refused creation. A later
	// creation that succeeds ends this time early. Without the limit the service could stay
	// unready, because a load balancer sends no creations to an unready service.
	refusalMemory = 5 * time.Second
)

var errRefusing = errors.New("recent creations were refused")

// readiness decides whether the service can create and resolve links. It combines a
// ping of the store with the result of the last creation, because creations may fail while
// the store answers, for example for lack of disk space or of keys.
type readiness struct {
	ping    func(context.Context) error
	now     func() time.Time
	refused atomic.Pointer[time.Time] // time of the last creation if it was refused, nil if it succeeded

	mu  sync.Mutex // held during a ping, so that concurrent callers share its result
	at  time.Time  // when err became known
	err error
}

// check returns the result of the last ping if it is younger than Freshness. Otherwise it
// pings the store. The pings are limited, because any HTTP client can cause a call of Ready, and
// a ping occupies a connection. SQLite has only one connection for writing.
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
	// Read the time after the ping. Otherwise every caller that waited for a slow ping would
	// start another ping.
	r.at, r.err = r.now(), err
	return err
}

// created records the result of a creation. It ignores failures that do not show whether later
// creations will fail: those that [commit.ConcernsOneCreation] lists, a client that disconnects, and a link whose data the store
// rejects.
func (r *readiness) created(err error) {
	switch {
	case err == nil:
		if r.refused.Load() != nil { // a read after every creation is cheaper than a write
			r.refused.Store(nil)
		}
	case !commit.ConcernsOneCreation(err) && !errors.Is(err, shortener.ErrRefused) && !errors.Is(err, context.Canceled):
		now := r.now()
		r.refused.Store(&now)
	}
}

// retryAfter is the delay that every UnavailableError of this package advises.
const retryAfter = time.Second

// unavailable wraps err in an UnavailableError. It returns an UnavailableError and ErrRefused
// unchanged. ErrRefused is not temporary: the link passed the checks of this package, but the
// store rejects it each time.
func unavailable(err error) error {
	if _, ok := errors.AsType[*shortener.UnavailableError](err); ok || errors.Is(err, shortener.ErrRefused) {
		return err
	}
	return &shortener.UnavailableError{RetryAfter: retryAfter, Err: err}
}
