// Package mempool supplies one process with keys from the ledger. [Pool] keeps reserved ranges in
// memory and splits batches off them. [LedgerSupply] has no pool: each Take reserves a batch in the
// ledger. Packages kgs and ledger define the vocabulary.
//
// Invariant: the ledger records every key as part of a batch before the key is handed out.
package mempool

import (
	"context"
	"errors"
	"sync"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// Pool is the pool of a single process. It holds ranges of the ledger and makes codes only when
// they are taken, so even a large pool needs little memory. The ledger records each batch before
// Take returns it. Methods may be called concurrently.
type Pool struct {
	batches ledgerBatches
	taking  chan struct{} // a mutex for Take: the channel has room for one element, which the running Take puts into it

	mu     sync.Mutex
	ranges []ledger.Reservation // ranges in the order in which they are handed out
	taken  int64                // count of all numbers that were taken
	pushed int64                // count of all numbers that were pushed
}

var _ kgs.Supply = (*Pool)(nil)

// New returns an empty pool whose ranges belong to holder in the ledger. The caller renews and
// releases holder. The pool must not be used after holder is released.
func New(ledger *ledger.Ledger, space *codespace.Space, holder string) *Pool {
	return &Pool{batches: ledgerBatches{ledger, space, holder, kgs.SourcePool}, taking: make(chan struct{}, 1)}
}

// Push appends r to the pool. r must be a reserved range of the pool's holder.
func (p *Pool) Push(r ledger.Reservation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranges = append(p.ranges, r)
	p.pushed += r.Len()
}

// Len returns how many numbers the pool holds. While this process was frozen, other processes may
// have taken over some of its ranges. Len counts such a range until a Take detects the loss.
func (p *Pool) Len() int64 { return p.Status().Keys }

// Status returns the size of the pool, and how many numbers were pushed to it and taken from it
// so far.
func (p *Pool) Status() kgs.PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := kgs.PoolStatus{Taken: p.taken, Pushed: p.pushed}
	for _, r := range p.ranges {
		s.Keys += r.Len()
	}
	return s
}

// Take splits a batch of up to n keys off the first range. Concurrent calls run one after the
// other. It fails with [kgs.ErrEmpty] when the pool is empty.
//
// If Take fails, the ledger may already have recorded a batch. The next Take then returns that
// batch, which may have more than n keys.
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

// Settle records in the ledger what happened to the keys of b. The unused keys become
// reserved ranges. [ledger.Ledger.Reserve] describes who takes these ranges.
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

// replaceFront replaces the first range with rest, or removes it if rest is empty. It adds taken
// to the count of taken numbers. Only the running Take calls replaceFront, and Push appends at the
// end. So the first range is still the range that this Take got from front.
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
