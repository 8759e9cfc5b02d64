package commit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"keypool/shortener"
)

const (
	// defaultQueueSize is the default maximum number of creations that wait for a commit. Any store commits this number of
	// links in a few tenths of a second, so even the last link of a full queue is committed before commitTimeout.
	defaultQueueSize = 4096
	// maxInserters is the maximum number of Inserts that run at the same time. If the store runs fewer Inserts at the same
	// time (Store.Writers), there are fewer inserters. With two inserters, one gathers and sends rows while the disk writes
	// the rows of the other inserter. More inserters would only make the transactions smaller.
	maxInserters = 2
	// commitTimeout is the maximum time that a caller waits for the commit of its link. So if the store has one part and
	// hangs, a client gets an answer within a second. If an inserter has taken the link before the wait ends, the outcome
	// may be unknown. If the store has several parts and the link was not written, the creation may try another part, until
	// moveTimeout has passed.
	commitTimeout = 900 * time.Millisecond
)

// ErrTooSlow reports that a commit did not end in time.
var ErrTooSlow = fmt.Errorf("the commit took longer than %v", commitTimeout)

// committer is a group commit. Links that arrive during an Insert share the next Insert (DeWitt et al.,
// "Implementation Techniques for Main Memory Database Systems", SIGMOD 1984). An inserter is a
// goroutine that takes links from the queue and inserts them. An idle inserter inserts a link at once
// and does not wait for other links.
//
// This file contains the code that callers run. The inserters are in inserter.go.
type committer struct {
	store   shortener.Store
	metrics *Metrics
	queue   chan *pending
	free    sync.Pool     // contains values of type *pending for reuse
	taking  chan struct{} // holds an element while an inserter takes links from the queue
	health  health

	mu     sync.RWMutex // write lock: to close the queue; read lock: to send a link to the queue
	closed bool

	abort context.CancelFunc // interrupts every Insert
	idle  chan struct{}      // closed when all inserters have ended
}

// pending is a link that the committer has accepted, and its result.
type pending struct {
	link   shortener.Link
	state  atomic.Uint32
	result chan result // has a buffer of 1, so that an inserter never waits for a caller
	timer  *time.Timer
	cause  atomic.Pointer[error] // error of the first Insert; a caller gets this error if it stops waiting during a repetition
}

// The states of a pending link. The inserter and the caller compete for the transition from the
// state queued. The inserter may write the link only if its transition to the state taken succeeds.
const (
	queued uint32 = iota
	taken         // an inserter has taken the link and may write it
	left          // the caller no longer waits
)

type result struct {
	outcome shortener.Outcome
	err     error
}

// newCommitter starts a committer whose queue has room for queueSize links; 0 means the default. The
// method close stops the committer.
func newCommitter(store shortener.Store, metrics *Metrics, queueSize int) *committer {
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
		health:  health{origin: time.Now()},
	}
	c.free.New = func() any {
		return &pending{result: make(chan result, 1), timer: time.NewTimer(commitTimeout)}
	}
	// Start at most one inserter for each Insert that the store runs at the same time. A further inserter would take links
	// and then wait inside Insert, although its links could share the next Insert of another inserter.
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

// commit makes link durable and returns its outcome. If the error wraps ErrNotWritten, the link is not
// in the store and will not be written later. After any other error, the link may be in the store. If
// the queue is full or closed, commit fails at once. Otherwise it blocks until the store has answered,
// ctx ends or commitTimeout has passed. In the last two cases, only the wait ends. The group commit
// continues for the other links, and also for this link if an inserter has taken the link.
//
// If the program crashes before the transaction of the store commits, the store has no row. If the
// program crashes after this commit and before the answer, the store has a row. In both cases the
// creation was not acknowledged, and all keys in the batch of the server are abandoned: they are never
// handed out again. An audit looks for the keys of the batch in the rows of the store. A key
// that has a row counts as used.
func (c *committer) commit(ctx context.Context, link shortener.Link) (shortener.Outcome, error) {
	p := c.free.Get().(*pending)
	p.link = link
	p.state.Store(queued)
	p.cause.Store(nil)
	if err := c.enqueue(p); err != nil {
		c.free.Put(p)
		return 0, err
	}
	p.timer.Reset(commitTimeout)
	select {
	case r := <-p.result:
		// The inserter no longer uses p, so another call may reuse p. In the other cases, an inserter
		// may still use p.
		p.timer.Stop()
		c.free.Put(p)
		return r.outcome, r.err
	case <-ctx.Done():
		return p.leave(ctx.Err())
	case <-p.timer.C:
		return p.leave(ErrTooSlow)
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

// leave ends the wait for p. If no inserter has taken p, leave withdraws the link and fails with an error
// that wraps ErrNotWritten. Otherwise leave returns the outcome, or an error if the outcome is still unknown.
func (p *pending) leave(why error) (shortener.Outcome, error) {
	if p.state.CompareAndSwap(queued, left) {
		return 0, fmt.Errorf("%w: %w", shortener.ErrNotWritten, why)
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

// close refuses new links, commits the queued links and returns when every link has its result. If ctx
// ends before that, close interrupts the Inserts and returns an error. close may be called more than
// once.
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
