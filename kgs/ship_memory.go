package kgs

import "context"

// MemoryShipper fills a MemoryPool: it only reserves, for the pool holds ranges.
type MemoryShipper struct {
	Ledger *Ledger
	Pool   *MemoryPool
	Holder string // the pool's holder: what it does not use, the next process adopts
	Length int    // of the codes
}

var _ Shipper = MemoryShipper{}

// Prepare does nothing: the pool has no epochs and reserves nothing by itself.
func (s MemoryShipper) Prepare(context.Context) error { return nil }

// Len never fails.
func (s MemoryShipper) Len(context.Context) (int64, error) { return s.Pool.Size(), nil }

// Ship reserves a range for the pool. A crash right after leaves the range recorded
// as reserved under Holder, whole; another process adopts it.
func (s MemoryShipper) Ship(ctx context.Context, n int64) (int64, error) {
	r, err := s.Ledger.Reserve(ctx, s.Holder, RangeReserved, s.Length, n)
	if err != nil {
		return 0, err
	}
	s.Pool.Push(r)
	return r.Len(), nil
}

// Release does nothing: the ranges belong to the pool, whose owner releases the holder.
func (s MemoryShipper) Release(context.Context) error { return nil }
