// Package commit makes new links durable. It has a group commit for each part of a store, so that a part that hangs delays only its
// own links. Its vocabulary is that of package shortener, and:
//
//   - A part is one of the servers of a store, as [shortener.Placement] defines it. Most stores have one part.
//   - A group is the links that one Insert of the store writes. The group commit collects them from concurrent creations.
//   - A key that is set aside waits until its part answers. Then a creation uses it.
//
// These invariants also hold when the store or a key source fails:
//
//   - The outcome Inserted means that the row of the link is durable.
//   - The links of a group belong to one part, apart from those that concern several parts themselves.
//   - Each key is settled once: as used, returned or lost. If the outcome of its commit is unknown, it is lost. A key that is set
//     aside is not settled yet.
//
// A link with an alias passes through [Parts.WithAlias], and a link with a key through [Parts.WithKey] (search.go). Both then pass
// through the group commit (committer.go, inserter.go).
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

// Config holds the settings of Parts. All members but QueueSize are required.
type Config struct {
	Store     shortener.Store
	Placement shortener.Placement // where the links of Store live
	Keys      shortener.Keys      // not used by WithAlias
	Metrics   *Metrics
	QueueSize int // creations that may wait for a commit in each part, 4,096 if 0
}

// Parts commits links to the parts of a store. Its methods may be called concurrently.
type Parts struct {
	Config
	aside    aside
	timeouts timeouts

	committers atomic.Pointer[map[int]*committer] // by part; the map never changes
	mu         sync.Mutex                         // held while committers is replaced
	closed     bool
}

const (
	// noPart is the number of no part.
	noPart = -1
	// several is the number under which committers has the group commit of links that concern several parts.
	several = -2
)

// Errors that say that a link was not written.
var (
	// ErrRepeated reports that the idempotency key of a creation was used before.
	ErrRepeated = fmt.Errorf("%w: the idempotency key was used before", shortener.ErrNotWritten)

	errQueueFull = fmt.Errorf("%w: the queue of creations is full", shortener.ErrNotWritten)
	errClosed    = fmt.Errorf("%w: the server is stopping", shortener.ErrNotWritten)
	errPartDown  = fmt.Errorf("%w: the part of the store to which the code belongs does not answer", shortener.ErrNotWritten)
)

// ConcernsOneCreation reports whether an error of this package says nothing about later creations: the queue was full, the part of
// an alias or of an idempotency key does not answer, or the key source hash has no further code for a URL.
func ConcernsOneCreation(err error) bool {
	return errors.Is(err, errQueueFull) || errors.Is(err, errPartDown) || errors.Is(err, errNoFurtherKey)
}

// New starts the commits to a store. Close stops them.
func New(cfg Config) *Parts {
	p := &Parts{Config: cfg, aside: aside{gauge: cfg.Metrics.setAside}}
	p.committers.Store(&map[int]*committer{})
	return p
}

// WithAlias commits a link whose code is an alias, and returns its outcome: Inserted or Conflict. It fails at once if the part of the alias, or that of
// its idempotency key, does not answer. Otherwise it blocks and fails as commit does.
func (p *Parts) WithAlias(link *shortener.Link) (shortener.Outcome, error) {
	part, answers := p.Placement.PartOf(link.Code)
	if answers && link.Once != nil {
		_, answers = p.Placement.PartOfRequest(link.Once.Key)
	}
	if !answers {
		return 0, errPartDown
	}
	return p.commit(p.timeouts.context(), part, link)
}

// commit passes a link of a part to a group commit.
func (p *Parts) commit(ctx context.Context, part int, link *shortener.Link) (shortener.Outcome, error) {
	if link.Once != nil {
		if of, _ := p.Placement.PartOfRequest(link.Once.Key); of != part {
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

// start starts the group commit of a part, unless it runs. It returns nil after Close.
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

// Close commits the queued links and stops. The keys that are set aside go back to their batches. If ctx ends before all commits are
// done, Close interrupts them and returns an error. It may be called more than once.
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
