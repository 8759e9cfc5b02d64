package shortener

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultQueueSize is how many creations may wait: some tenths of a second of work
	// for any store.
	defaultQueueSize = 4096
	// maxInserters is how many Inserts run at the same time, if the store has as many
	// writers. With two, one gathers and sends its rows while the disk writes those of
	// the other. More would only make the transactions smaller.
	maxInserters = 2
	// commitTimeout is how long a creation waits for its commit before it fails. A client
	// of a store that hangs has its answer within a second.
	commitTimeout = 900 * time.Millisecond
)

var (
	errQueueFull = fmt.Errorf("%w: the queue of creations is full", ErrNotWritten)
	errClosed    = fmt.Errorf("%w: the server is stopping", ErrNotWritten)
	errTooSlow   = fmt.Errorf("the commit took longer than %v", commitTimeout)
)

// committer is a group commit: links that arrive during an Insert share the next one
// (DeWitt et al., "Implementation Techniques for Main Memory Database Systems", SIGMOD
// 1984). A link never waits for others to join it; a single link is inserted alone.
//
// This file is the side of the callers. The inserters are in inserter.go.
type committer struct {
	store   Store
	metrics *Metrics
	queue   chan *pending
	free    sync.Pool     // of *pending
	taking  chan struct{} // holds a token while an inserter takes links from the queue

	mu     sync.RWMutex // held for writing to close queue, for reading to send to it
	closed bool

	abort context.CancelFunc // interrupts every Insert
	idle  chan struct{}      // closed when all inserters have ended
}

// pending is one link on its way through the committer.
type pending struct {
	link   Link
	state  atomic.Uint32
	result chan result // has room for the one result, so that an inserter never waits for a caller
	timer  *time.Timer
	cause  atomic.Pointer[error] // why an Insert failed, for a caller that leaves during its repetition
}

// The states of a pending link. The transition out of queued decides whether the link
// may be written.
const (
	queued uint32 = iota
	taken         // by an inserter: the link may be written
	left          // the caller has given up
)

type result struct {
	outcome Outcome
	err     error
}

// newCommitter starts a committer whose queue has room for queueSize links; 0 means the
// default. close stops it.
func newCommitter(store Store, metrics *Metrics, queueSize int) *committer {
	if queueSize <= 0 {
		queueSize = defaultQueueSize
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &committer{
		store:   store,
		metrics: metrics,
		queue:   make(chan *pending, queueSize),
		taking:  make(chan struct{}, 1),
		abort:   cancel,
		idle:    make(chan struct{}),
	}
	c.free.New = func() any {
		return &pending{result: make(chan result, 1), timer: time.NewTimer(commitTimeout)}
	}
	// An inserter without a writer would hold back links that could share one Insert.
	var running sync.WaitGroup
	for range min(maxInserters, store.Writers()) {
		running.Go(func() { c.run(ctx) })
	}
	go func() {
		running.Wait()
		close(c.idle)
	}()
	return c
}

// commit makes link durable and returns its outcome. After an error that wraps
// ErrNotWritten the link is not in the store and never will be; after any other error it
// may be. commit fails at once when the queue is full. Otherwise it blocks until the
// link is durable, ctx ends or commitTimeout has passed. Giving up affects only this
// link: the group commit continues for the others.
//
// A crash before the store's commit leaves no row; a crash after it leaves a row. In
// both cases the creation was not acknowledged, and the batch of its key, which is on
// record, is abandoned as a whole. The audit finds by the rows which keys are used.
func (c *committer) commit(ctx context.Context, link Link) (Outcome, error) {
	p := c.free.Get().(*pending)
	p.link = link
	p.state.Store(queued)
	p.cause.Store(nil)
	if err := c.enqueue(p); err != nil {
		c.free.Put(p)
		return 0, unavailable(err)
	}
	p.timer.Reset(commitTimeout)
	select {
	case r := <-p.result:
		// Only here: an inserter may still use a pending whose caller gave up.
		p.timer.Stop()
		c.free.Put(p)
		return r.outcome, r.err
	case <-ctx.Done():
		return p.leave(ctx.Err())
	case <-p.timer.C:
		return p.leave(errTooSlow)
	}
}

func (c *committer) enqueue(p *pending) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return errClosed
	}
	select {
	case c.queue <- p:
		return nil
	default:
		return errQueueFull
	}
}

// leave ends the wait for p. It withdraws p from the queue if possible. Otherwise it
// returns the outcome if that is known by now, or an error that says it is unknown.
func (p *pending) leave(why error) (Outcome, error) {
	if p.state.CompareAndSwap(queued, left) {
		return 0, fmt.Errorf("%w: %w", ErrNotWritten, why)
	}
	p.state.Store(left)
	select {
	case r := <-p.result:
		return r.outcome, r.err
	default:
	}
	if cause := p.cause.Load(); cause != nil {
		why = fmt.Errorf("%w: %w", why, *cause)
	}
	return 0, fmt.Errorf("the outcome of the commit is unknown: %w", why)
}

// close refuses new links, commits the queued ones and returns when every link has its
// result. When ctx ends first, close interrupts the Inserts and returns an error. It may
// be called more than once.
func (c *committer) close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.queue)
	}
	c.mu.Unlock()
	defer c.abort()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		c.abort()
		<-c.idle
		return fmt.Errorf("commit the queued links: %w", ctx.Err())
	}
}
