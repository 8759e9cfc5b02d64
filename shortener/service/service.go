// Package service creates, resolves and manages short links. It uses the vocabulary of package shortener and these terms:
//
//   - A creation is one call of [Service.Create] or [Service.CreateIdempotent].
//   - An attempt is one insert of a link with one key. After a conflict, the creation makes another attempt with another
//     key.
//   - A look-up is a read of the store for one code.
//
// These invariants also hold when the store or a key source fails:
//
//   - A creation is acknowledged only after its row is durable.
//   - A creation never looks its code up before the insert. Only the insert decides whether the code is free.
//     [Service.Suggest] looks codes up, but only to give advice.
//
// A creation begins in [Service.Create] or [Service.CreateIdempotent]. Package commit draws a key from the
// [shortener.Keys] and inserts the link into the [shortener.Store]. A redirect begins in [Service.Resolve], which asks
// the cache (cache.go). The cache asks the store.
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

	"keypool/internal/slots"
	"keypool/shortener"
	"keypool/shortener/commit"
	"keypool/shortener/destination"
)

// Service creates and resolves links. All its methods may be called concurrently.
type Service struct {
	store       shortener.Store
	metrics     *Metrics
	now         func() time.Time
	cache       *cache
	commits     *commit.Parts
	reads       *slots.Slots[int64] // limit how many lists and queries for visits run at the same time
	changes     *slots.Slots[int64] // limit how many changes and deletions run at the same time
	answers     *slots.Slots[int64] // limit how many lists and counts of visits are in memory while clients receive them
	streams     *slots.Slots[int64] // limit how many calls of All run at the same time
	repetitions *slots.Slots[int64] // limit how many look-ups of idempotency keys run at the same time
	readiness   readiness

	destinations destination.Rules
}

// Config holds the settings of a Service. Store and Keys are required.
type Config struct {
	Store     shortener.Store
	Keys      shortener.Keys
	Placement shortener.Placement // shows in which part of Store each link lives; if nil, Store has one part
	Lookup    Lookup              // looks links up for redirects; if nil, the method Lookup of Store
	Replicas  Replicas            // the replicas that Lookup asks
	Metrics   *Metrics            // if nil, the metrics are not exported
	CacheSize int                 // maximum number of links in the cache, DefaultCacheSize if 0; a link with a long URL counts as several links
	QueueSize int                 // maximum number of creations that wait for a commit in each part of Store, 4,096 if 0
	Readers   int                 // maximum number of lists and queries for visits at the same time, defaultReaders if 0
	OwnHosts  *destination.Hosts  // names of this service, besides the origin of a request; a link must not lead to them
	Now       func() time.Time    // if nil, time.Now
}

// Lookup returns the row of code, as the Lookup of a [shortener.Store] does. It finds every link whose Insert has returned.
// But the URL, the expiry, the deletion and the details of the link may be older than in the store.
type Lookup func(ctx context.Context, code string) (shortener.Link, error)

// Replicas describes the replicas of the store that a [Lookup] asks. The zero value means that there are none.
type Replicas struct {
	MaxLag time.Duration // maximum lag of a replica that Lookup asks
	// Answered returns the time at which the primary last answered. While the primary answers, Answered returns its
	// parameter now. While the primary does not answer, a replica may lack the changes after the returned time for longer
	// than MaxLag. If MaxLag is not 0, Answered is required.
	Answered func(now time.Time) time.Time
}

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
	links := newCache(cfg.CacheSize, cfg.Lookup, cfg.Placement, cfg.Now)
	links.replicas = cfg.Replicas
	return &Service{
		store:   cfg.Store,
		metrics: cfg.Metrics,
		now:     cfg.Now,
		cache:   links,
		commits: commit.New(commit.Config{
			Store: cfg.Store, Placement: cfg.Placement, Keys: cfg.Keys, Metrics: cfg.Metrics.commits, QueueSize: cfg.QueueSize,
		}),
		reads:       slots.New[int64](cmp.Or(cfg.Readers, defaultReaders)),
		changes:     slots.New[int64](maxChanges),
		answers:     slots.New[int64](maxAnswers),
		streams:     slots.New[int64](maxStreams),
		repetitions: slots.NewShared[int64](maxRepetitions, maxRepetitionsOfToken),
		readiness:   readiness{ping: cfg.Store.Ping, now: cfg.Now},

		destinations: destination.Rules{Own: cfg.OwnHosts},
	}
}

// Block replaces the block list. Links that lead to one of these hosts, or to a subdomain, do not resolve and cannot be
// created. After a host is removed from the list, its links resolve again.
func (s *Service) Block(hosts *destination.Hosts) { s.destinations.Block(hosts) }

// Ready fails with an *UnavailableError while links cannot be created or resolved. It pings the store at most about once a
// second. Calls in between return the last result. Ready blocks for at most one second, with one exception: with SQLite,
// it blocks for up to five seconds while another process holds the write lock. It may block after ctx ends, because
// concurrent callers share the ping.
func (s *Service) Ready(ctx context.Context) error { return s.readiness.check(ctx) }

// Close commits the queued creations and stops the service. If ctx ends before all commits are done, Close interrupts the
// commits and returns an error. SQLite cannot interrupt a commit that has begun, so Close waits for this commit. Create
// must not be called after Close.
func (s *Service) Close(ctx context.Context) error { return s.commits.Close(ctx) }

const (
	// pingTimeout is the time limit of one Ping, after which the store counts as unavailable.
	pingTimeout = time.Second
	// refusalMemory is the time for which the service is not ready after a refused creation. After a later creation
	// succeeds, the next ping makes the service ready. Without this time limit, the service could remain unready for
	// ever, because a load balancer sends no creations to an unready service.
	refusalMemory = 5 * time.Second
)

var errRefusing = errors.New("recent creations were refused")

// readiness decides whether the service can create and resolve links. It pings the store and also considers the result of
// the last creation. Creations may fail although the store answers, for example for lack of disk space or of keys.
type readiness struct {
	ping    func(context.Context) error
	now     func() time.Time
	refused atomic.Pointer[time.Time] // time of the last refused creation, nil if a later creation succeeded

	mu  sync.Mutex // held during a ping, so that concurrent callers share its result
	at  time.Time  // time of the last check that pinged, whose result is err
	err error
}

// check returns the last result if it is younger than Freshness. Otherwise it pings the store. The pings are limited,
// because any HTTP client can cause a call of Ready, and each ping occupies a connection. With SQLite, this is the only
// connection for writing.
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
	// Read the time after the ping. If the time were read before a slow ping, every caller that waited for the ping would
	// start another ping.
	r.at, r.err = r.now(), err
	return err
}

// created records the result of a creation. It ignores these errors, which say nothing about later creations:
//
//   - the errors for which [commit.ConcernsOneCreation] is true;
//   - the error of a client that disconnects;
//   - the error of a link whose data the store rejects;
//   - the error of an alias whose row is damaged.
func (r *readiness) created(err error) {
	switch {
	case err == nil:
		if r.refused.Load() != nil { // a read after every creation is cheaper than a write
			r.refused.Store(nil)
		}
	case errors.Is(err, shortener.ErrRefused), errors.Is(err, shortener.ErrDetails), errors.Is(err, context.Canceled):
	case !commit.ConcernsOneCreation(err):
		now := r.now()
		r.refused.Store(&now)
	}
}

// retryAfter is the delay that every UnavailableError of this package advises.
const retryAfter = time.Second

// unavailable wraps err in an UnavailableError. If err already wraps an UnavailableError, unavailable returns err. If err
// wraps ErrRefused, unavailable returns err too, because this error is not temporary: the link passed the checks of this
// package, but the store would reject it each time.
func unavailable(err error) error {
	if _, ok := errors.AsType[*shortener.UnavailableError](err); ok || errors.Is(err, shortener.ErrRefused) {
		return err
	}
	return &shortener.UnavailableError{RetryAfter: retryAfter, Err: err}
}

// begin waits up to the given time for a slot for an operation of the actor. Its errors are UnavailableErrors.
func begin(ctx context.Context, s *slots.Slots[int64], a Actor, wait time.Duration) (end func(), err error) {
	if end, err = s.Begin(ctx, a.Token, wait); err != nil {
		return nil, unavailable(err)
	}
	return end, nil
}
