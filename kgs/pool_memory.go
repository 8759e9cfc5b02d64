package kgs

import (
	"context"
	"errors"
	"sync"
)

// MemoryPool is the pool of a single process. It holds ranges of the ledger, not
// codes, so a pool of any size takes no memory to speak of, and a key that leaves
// it is booked before it is handed out.
type MemoryPool struct {
	books  ledgerBooks
	taking chan struct{} // holds a token while a take is under way

	mu     sync.Mutex
	ranges []Range // in the order they are to be handed out
	popped int64   // numbers that were ever taken
	pushed int64   // numbers that ever came
}

var _ Supply = (*MemoryPool)(nil)

// NewMemoryPool makes an empty pool whose ranges belong to holder in the ledger. The
// caller renews and releases holder; a pool is not to be used after that.
func NewMemoryPool(ledger *Ledger, space *Space, holder string) *MemoryPool {
	return &MemoryPool{books: ledgerBooks{ledger, space, holder, SourcePool}, taking: make(chan struct{}, 1)}
}

// Push adds r, which must be a reserved range of the pool's holder.
func (p *MemoryPool) Push(r Range) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranges = append(p.ranges, r)
	p.pushed += r.Len()
}

// Size is how many numbers the pool holds, by its own knowledge: ranges that were
// taken over while the process was frozen count until the next Take finds out.
func (p *MemoryPool) Size() int64 { return p.Status().Keys }

// Status tells the pool's size, and how many numbers were ever taken from it.
func (p *MemoryPool) Status() PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PoolStatus{Taken: p.popped, Pushed: p.pushed}
	for _, r := range p.ranges {
		s.Keys += r.Len()
	}
	return s
}

// Take cuts a batch from the front range. One take is under way at a time. A repeat
// after an error gives the batch that the first try cut, if it did, which may then
// have more than n keys.
func (p *MemoryPool) Take(ctx context.Context, n int) (*Batch, error) {
	select {
	case p.taking <- struct{}{}:
		defer func() { <-p.taking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		front, ok := p.front()
		if !ok {
			return nil, ErrEmpty
		}
		batch, rest, err := p.books.ledger.Cut(ctx, p.books.holder, front, int64(n))
		if errors.Is(err, ErrFenced) {
			p.replaceFront(Range{}, 0)
			continue
		}
		if err != nil {
			return nil, err
		}
		p.replaceFront(rest, batch.Len())
		return p.books.batch(batch), nil
	}
}

// Settle books what became of the keys of b. Unused ones come back to this pool, or
// another, when the worker next reserves.
func (p *MemoryPool) Settle(ctx context.Context, b *Batch, unused, lost []string) error {
	return p.books.settle(ctx, b, unused, lost)
}

func (p *MemoryPool) front() (Range, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ranges) == 0 {
		return Range{}, false
	}
	return p.ranges[0], true
}

// replaceFront puts rest, unless it is empty, in the place of the front range, after so
// many numbers were taken. Only the take under way calls it, and pushes go to the back.
func (p *MemoryPool) replaceFront(rest Range, taken int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.popped += taken
	if rest.Len() > 0 {
		p.ranges[0] = rest
		return
	}
	p.ranges = p.ranges[1:]
}
