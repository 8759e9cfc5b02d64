// Package mempool supplies the keys of a single process from the ledger, without a server in
// between: [Pool] holds reserved ranges in memory, and [LedgerSupply] reserves each batch
// when it is taken.
//
// Invariant: every key is recorded in the ledger as part of a batch before it is handed out.
package mempool

import (
	"context"
	"errors"
	"sync"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// Pool is the pool of a single process. It holds ranges of the ledger, not
// codes, so a pool of any size takes no memory to speak of, and a key that leaves
// it is booked before it is handed out.
type Pool struct {
	batches ledgerBatches
	taking  chan struct{} // holds a token while a take is under way

	mu     sync.Mutex
	ranges []ledger.Reservation // in the order they are to be handed out
	taken  int64                // numbers that were ever taken
	pushed int64                // numbers that ever came
}

var _ kgs.Supply = (*Pool)(nil)

// New makes an empty pool whose ranges belong to holder in the ledger. The
// caller renews and releases holder; a pool is not to be used after that.
func New(ledger *ledger.Ledger, space *codespace.Space, holder string) *Pool {
	return &Pool{batches: ledgerBatches{ledger, space, holder, kgs.SourcePool}, taking: make(chan struct{}, 1)}
}

// Push adds r, which must be a reserved range of the pool's holder.
func (p *Pool) Push(r ledger.Reservation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranges = append(p.ranges, r)
	p.pushed += r.Len()
}

// Len is how many numbers the pool holds, by its own knowledge: ranges that were
// taken over while the process was frozen count until the next Take finds out.
func (p *Pool) Len() int64 { return p.Status().Keys }

// Status tells the pool's size, and how many numbers were ever taken from it.
func (p *Pool) Status() kgs.PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := kgs.PoolStatus{Taken: p.taken, Pushed: p.pushed}
	for _, r := range p.ranges {
		s.Keys += r.Len()
	}
	return s
}

// Take cuts a batch from the front range. One take is under way at a time. A repeat
// after an error gives the batch that the first try cut, if it did, which may then
// have more than n keys.
func (p *Pool) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	select {
	case p.taking <- struct{}{}:
		defer func() { <-p.taking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		front, ok := p.front()
		if !ok {
			return nil, kgs.ErrEmpty
		}
		batch, rest, err := p.batches.ledger.Cut(ctx, p.batches.holder, front, int64(n))
		if errors.Is(err, kgs.ErrFenced) {
			p.replaceFront(ledger.Reservation{}, 0)
			continue
		}
		if err != nil {
			return nil, err
		}
		p.replaceFront(rest, batch.Len())
		return p.batches.batch(batch), nil
	}
}

// Settle records what happened to the keys of b. Unused ones come back to this pool, or
// another, when the worker next reserves.
func (p *Pool) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	return p.batches.settle(ctx, b, unused, lost)
}

func (p *Pool) front() (ledger.Reservation, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ranges) == 0 {
		return ledger.Reservation{}, false
	}
	return p.ranges[0], true
}

// replaceFront puts rest, unless it is empty, in the place of the front range, after so
// many numbers were taken. Only the take under way calls it, and pushes go to the back.
func (p *Pool) replaceFront(rest ledger.Reservation, taken int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken += taken
	if rest.Len() > 0 {
		p.ranges[0] = rest
		return
	}
	p.ranges = p.ranges[1:]
}
