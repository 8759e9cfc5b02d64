package mempool

import (
	"context"

	"keypool/kgs/ledger"
	"keypool/kgs/refill"
)

// Filler fills a Pool: it only reserves, for the pool holds ranges.
type Filler struct {
	Ledger *ledger.Ledger
	Pool   *Pool
	Holder string // the pool's holder: what it does not use, the next process adopts
	Length int    // of the codes
}

var _ refill.Filler = Filler{}

// Prepare does nothing: the pool has no epochs and reserves nothing by itself.
func (s Filler) Prepare(context.Context) error { return nil }

// Len never fails.
func (s Filler) Len(context.Context) (int64, error) { return s.Pool.Len(), nil }

// Fill reserves a range for the pool. A crash right after leaves the range recorded
// as reserved under Holder, whole; another process adopts it.
func (s Filler) Fill(ctx context.Context, n int64) (int64, error) {
	r, err := s.Ledger.Reserve(ctx, s.Holder, ledger.StateReserved, s.Length, n)
	if err != nil {
		return 0, err
	}
	s.Pool.Push(r)
	return r.Len(), nil
}

// Release does nothing: the ranges belong to the pool, whose owner releases the holder.
func (s Filler) Release(context.Context) error { return nil }
