package shortener

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultQueueSize is the number of creations that may wait: at any rate a store
	// can keep up with, some tenths of a second's worth.
	defaultQueueSize = 4096
	// defaultInserters is how many Inserts may be under way at once. With two, one
	// gathers and sends its rows while the disk is busy with the other's; more only
	// make the transactions smaller.
	defaultInserters = 2
	// patience is how long a creation waits for its commit before it is told to try
	// again later: a store that hangs is answered for within a second.
	patience = 900 * time.Millisecond
)

var (
	errQueueFull = fmt.Errorf("%w: too many creations wait for their commit", ErrNotWritten)
	errClosed    = fmt.Errorf("%w: the server is stopping", ErrNotWritten)
	errTooSlow   = errors.New("the commit takes too long")
)

// committer is a group commit: links that arrive while an Insert is under way share
// the next one. Nothing waits for the sake of a larger group; a link that comes alone is
// sent alone.
type committer struct {
	store   Store
	metrics *Metrics
	queue   chan *pending
	free    sync.Pool     // of *pending
	taking  chan struct{} // holds a token while an inserter takes from the queue

	mu     sync.RWMutex // held to close queue; held for reading to send to it
	closed bool

	giveUp context.CancelFunc // ends every Insert
	idle   chan struct{}      // closed when the inserters have ended
}

// serial is a store that carries out one Insert at a time. A second inserter would
// wait for the first with links that could have shared one transaction.
type serial interface{ serialInserts() }

// pending is one link on its way through the committer.
type pending struct {
	link   Link
	state  atomic.Uint32
	result chan result // has room for the one result, so no inserter waits for a caller
	timer  *time.Timer
	cause  atomic.Pointer[error] // why an Insert failed, for a caller who does not wait for the next
}

// The states of a pending link. Whoever moves it out of queued decides its fate.
const (
	queued uint32 = iota
	taken         // by an inserter: may be written
	left          // its caller has gone
)

type result struct {
	outcome Outcome
	err     error
}

// newCommitter starts a committer with room for queueSize waiting links, 0 meaning
// the default; close ends it.
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
		giveUp:  cancel,
		idle:    make(chan struct{}),
	}
	c.free.New = func() any {
		return &pending{result: make(chan result, 1), timer: time.NewTimer(patience)}
	}
	inserters := defaultInserters
	if _, ok := store.(serial); ok {
		inserters = 1
	}
	var running sync.WaitGroup
	for range inserters {
		running.Go(func() { c.run(ctx) })
	}
	go func() {
		running.Wait()
		close(c.idle)
	}()
	return c
}

// commit makes link durable and gives its outcome. An error that wraps ErrNotWritten
// says that the link is not in the store and never will be; after any other one it
// may be. With a full queue commit fails at once; otherwise it waits as long as ctx
// allows, and less than a second. To give up loses only this link's outcome: what
// others wait for goes on.
//
// A crash before the store's commit leaves no row, one after it a row; either way nobody
// was told yet, and the key's batch, which is on record, is given up as a whole: the
// audit finds by the row which of its keys were linked after all.
func (c *committer) commit(ctx context.Context, link Link) (Outcome, error) {
	p := c.free.Get().(*pending)
	p.link = link
	p.state.Store(queued)
	p.cause.Store(nil)
	if err := c.enqueue(p); err != nil {
		c.free.Put(p)
		return 0, unavailable(err)
	}
	p.timer.Reset(patience)
	select {
	case r := <-p.result:
		// Only here: a pending that its caller left may still be in an inserter's hands.
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

// leave ends the wait for p: it is withdrawn from the queue, or its outcome is what
// it happens to be at this moment, or unknown.
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

// close refuses new links, commits those that wait, and returns when all is settled.
// When ctx ends before that it breaks off the Inserts, and says so. It may be called
// more than once.
func (c *committer) close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.queue)
	}
	c.mu.Unlock()
	defer c.giveUp()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		c.giveUp()
		<-c.idle
		return fmt.Errorf("commit what was queued: %w", ctx.Err())
	}
}
