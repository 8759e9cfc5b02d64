// Package commit makes new links durable. It has a group commit for each part of a store, so that a part that hangs delays only its
// own links. It uses the vocabulary of package shortener and these terms:
//
//   - A part is one of the servers of a store, as [shortener.Placement] defines it. Most stores have one part.
//   - A group consists of the links that one Insert of the store writes. The group commit collects these links from
//     concurrent creations.
//   - A key is set aside if its part does not answer or did not store the link, or if another part suits the creation better. A
//     later creation uses the key.
//
// These invariants also hold when the store or a key source fails:
//
//   - The outcome Inserted means that the row of the link is durable.
//   - All links of a group belong to one part, with one exception: links whose code and idempotency key belong to
//     different parts share a separate group commit.
//   - Each key with a batch is settled once: as used, returned or lost. If the outcome of its commit is unknown, the
//     key is settled as lost. A key that is set aside is settled later.
//
// [Parts.WithAlias] commits a link with an alias. [Parts.WithKey] (search.go) commits a link with a key. Both methods
// use the group commit (committer.go, inserter.go).
package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"keypool/shortener"
)

// Config holds the settings of Parts. All members are required, except Keys and QueueSize.
type Config struct {
	Store     shortener.Store
	Placement shortener.Placement // where the links of Store live
	Keys      shortener.Keys      // required by WithKey, and not used by WithAlias
	Metrics   *Metrics
	QueueSize int // maximum number of creations that wait for a commit in each part; 4,096 if 0
}

// Parts commits links to the parts of a store. Its methods may be called concurrently.
type Parts struct {
	Config
	aside    setAsideKeys
	timeouts timeouts

	committers atomic.Pointer[map[int]*committer] // group commits by part; start replaces the whole map instead of changing it, so that commit can read the map without mu
	mu         sync.Mutex                         // held while committers is replaced
	closed     bool
}

const (
	// noPart stands for the number of a part if there is none.
	noPart = -1
	// several stands for the number of a part if the code and the idempotency key of a link belong to different parts.
	// All such links have one group commit.
	several = -2
)

// ErrRepeated reports that the idempotency key of a creation was used before, possibly by an earlier Insert of the same
// creation.
var ErrRepeated = errors.New("the idempotency key was used before")

// Errors that say that a link was not written.
var (
	errCodeBusy  = fmt.Errorf("%w: another transaction that has not ended inserted a link with this code", shortener.ErrNotWritten)
	errQueueFull = fmt.Errorf("%w: the queue of creations is full", shortener.ErrNotWritten)
	errClosed    = fmt.Errorf("%w: the server is stopping", shortener.ErrNotWritten)
	errPartDown  = fmt.Errorf("%w: the part of the store to which the alias or the idempotency key belongs does not answer", shortener.ErrNotWritten)
)

// ConcernsOneCreation reports whether later creations may succeed in spite of this error. There are four such errors:
//
//   - the queue was full;
//   - the part of an alias or of an idempotency key does not answer;
//   - another transaction inserted the same code and has not ended;
//   - the key source had a first key for the creation, but has no further key (see errNoFurtherKey).
func ConcernsOneCreation(err error) bool {
	return errors.Is(err, errQueueFull) || errors.Is(err, errPartDown) || errors.Is(err, errCodeBusy) || errors.Is(err, errNoFurtherKey)
}

// New returns a Parts that commits links to cfg.Store. New starts no group commit: the group commit of a part starts when
// the part gets its first link. Close stops all group commits.
func New(cfg Config) *Parts {
	p := &Parts{Config: cfg, aside: setAsideKeys{gauge: cfg.Metrics.setAside}}
	p.committers.Store(&map[int]*committer{})
	return p
}

// WithAlias commits a link whose code is an alias, and returns its outcome: Inserted or Conflict. If the part of the alias or of
// the idempotency key does not answer, WithAlias fails at once. Otherwise it blocks until the link is durable, for at most 0.9 s
// (commitTimeout). If the error wraps ErrNotWritten, the link is not in the store. After any other error, the link may be in the
// store.
func (p *Parts) WithAlias(link *shortener.Link) (shortener.Outcome, error) {
	part, answers := p.Placement.PartOf(link.Code)
	if answers && link.IdempotencyKey != nil {
		_, answers = p.Placement.PartOfRequest(link.IdempotencyKey.Key)
	}
	if !answers {
		return 0, errPartDown
	}
	return p.commit(p.timeouts.context(), part, link)
}

// commit passes a link of a part to the group commit of the part. If the idempotency key of the link belongs to another
// part, commit uses the group commit for several parts.
func (p *Parts) commit(ctx context.Context, part int, link *shortener.Link) (shortener.Outcome, error) {
	if link.IdempotencyKey != nil {
		if of, _ := p.Placement.PartOfRequest(link.IdempotencyKey.Key); of != part {
			part = several
		}
	}
	c := (*p.committers.Load())[part]
	if c == nil {
		if c = p.start(part); c == nil {
			return 0, errClosed
		}
	}
	return c.commit(ctx, *link)
}

// start returns the group commit of a part, and starts it if necessary. After Close, start starts no group commit, and
// returns nil if the part has no group commit.
func (p *Parts) start(part int) *committer {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := *p.committers.Load()
	if present[part] != nil || p.closed {
		return present[part]
	}
	next := maps.Clone(present)
	next[part] = newCommitter(p.Store, p.Metrics, p.QueueSize)
	p.committers.Store(&next)
	return next[part]
}

// Close commits the queued links. It gives each key that is set aside back to the batch of the key. If ctx ends before all commits are
// done, Close interrupts the commits and returns an error. Close may be called more than once.
func (p *Parts) Close(ctx context.Context) error {
	defer p.timeouts.close()
	p.mu.Lock()
	p.closed = true
	committers := *p.committers.Load()
	p.mu.Unlock()
	results := make(chan error, len(committers))
	for _, c := range committers {
		go func() { results <- c.close(ctx) }()
	}
	var errs []error
	for range committers {
		errs = append(errs, <-results)
	}
	p.aside.close()
	return errors.Join(errs...)
}
