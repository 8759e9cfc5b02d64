package mempool

import (
	"context"

	"keypool/kgs/ledger"
	"keypool/kgs/refill"
)

// Filler fills a Pool with ranges that it reserves in the ledger. It makes no codes, because the
// pool holds ranges.
type Filler struct {
	Ledger *ledger.Ledger
	Pool   *Pool
	Holder string // holder of the pool; when the holder ends, other processes take over its unused ranges
	Length int    // minimum length of the codes
}

var _ refill.Filler = Filler{}

// Prepare does nothing. The pool has no epochs, and Ledger.Reserve already takes over the ranges
// of dead holders.
func (s Filler) Prepare(context.Context) error { return nil }

// Len returns how many numbers the pool holds. The error is always nil.
func (s Filler) Len(context.Context) (int64, error) { return s.Pool.Len(), nil }

// Fill reserves a range of up to n numbers and pushes it to the pool. If the process crashes
// between these two steps, the ledger keeps the whole range as reserved under Holder. Another
// process then takes the range over.
func (s Filler) Fill(ctx context.Context, n int64) (int64, error) {
	r, err := s.Ledger.Reserve(ctx, s.Holder, ledger.StateReserved, s.Length, n)
	if err != nil {
		return 0, err
	}
	s.Pool.Push(r)
	return r.Len(), nil
}

// Release does nothing. The ranges belong to the holder of the pool, and the caller of [New] releases
// that holder.
func (s Filler) Release(context.Context) error { return nil }
