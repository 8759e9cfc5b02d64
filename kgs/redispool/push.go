package redispool

import (
	"context"
	"fmt"

	"keypool/kgs/ledger"
)

// Open makes an empty pool for epoch. runID is the history of the data that Status returned. If
// the pool is open for this epoch or a later one, Open changes nothing. It fails with
// [kgs.ErrNoEpoch] if Redis has begun another history since.
//
// Only the worker that began the epoch in the ledger may call Open for it, and only once. A pool
// that is flushed and opened again for the same epoch would have lost the marks of that epoch.
func (p *Pool) Open(ctx context.Context, epoch int64, runID string) error {
	if err := p.run(ctx, p.scripts.open, epoch, runID).Err(); err != nil {
		return fmt.Errorf("open the pool for epoch %d: %w", epoch, err)
	}
	return nil
}

// Push appends the codes of the numbers [from, to) of r to the pool. codes holds these codes one
// after the other, without separators. Push returns the next number of r that the pool expects.
//
// If the pool expected from, Push returns to. Otherwise it pushes nothing and returns the number
// to continue with: an earlier push arrived but its reply was lost, or another worker is ahead.
// So each number of a range is pushed once, whichever workers push it and however often.
//
// Push fails with [kgs.ErrFenced] if the range was delivered or belongs to an older epoch. It
// fails with [kgs.ErrNoEpoch] if the pool is not open for the epoch of r. Redis runs nothing else
// during a push, which takes about 3 ms for 10,000 codes.
func (p *Pool) Push(ctx context.Context, r ledger.Reservation, from, to int64, codes []byte) (mark int64, err error) {
	if from < r.Lo || to <= from || to > r.Hi || int64(len(codes)) != (to-from)*int64(r.Length) {
		return 0, fmt.Errorf("push to the pool: %d bytes are not the codes of [%d, %d) of range %d [%d, %d)",
			len(codes), from, to, r.ID, r.Lo, r.Hi)
	}
	mark, err = p.run(ctx, p.scripts.push, r.Epoch, r.ID, r.Lo, from, to, r.Length, codes).Int64()
	if err != nil {
		return 0, fmt.Errorf("push to the pool: %w", err)
	}
	return mark, nil
}

// Forget deletes the marks of all ranges with ids below floor, and fences these ranges. A worker
// that was frozen can then push no more of them. Forget never lowers the floor. It fails like
// Push if the epoch is not the epoch of the pool.
func (p *Pool) Forget(ctx context.Context, epoch, floor int64) error {
	if err := p.run(ctx, p.scripts.forget, epoch, floor).Err(); err != nil {
		return fmt.Errorf("fence the pool below range %d: %w", floor, err)
	}
	return nil
}
