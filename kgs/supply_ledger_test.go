package kgs

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestLedgerSupply(t *testing.T) {
	onEngines(t, func(t *testing.T, newBooks func(*testing.T) books) {
		testSupply(t, func(t *testing.T, keys int) suppliedTo {
			l := newBooks(t)
			return suppliedTo{Supply: NewLedgerSupply(l.Ledger, openWith(t, l, keys), "a", 6)}
		})
	})
}

func TestMemoryPool(t *testing.T) {
	onEngines(t, func(t *testing.T, newBooks func(*testing.T) books) {
		testSupply(t, func(t *testing.T, keys int) suppliedTo {
			l := newBooks(t)
			pool := NewMemoryPool(l.Ledger, openWith(t, l, keys), "a")
			refill := func(t *testing.T) { fill(t, l, pool, "a", 7) }
			fill(t, l, pool, "a", 500)
			return suppliedTo{pool, refill}
		})
	})
}

// fill pushes all that the ledger has left, up to n numbers at a time.
func fill(t *testing.T, l books, pool *MemoryPool, holder string, n int64) {
	t.Helper()
	for {
		r, err := l.Reserve(t.Context(), holder, RangeReserved, 6, n)
		if errors.Is(err, ErrExhausted) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		pool.Push(r)
	}
}

func TestMemoryPoolDropsWhatWasTakenOver(t *testing.T) {
	onLedgers(t, func(t *testing.T, l books) {
		space := openWith(t, l, 30)
		pool := NewMemoryPool(l.Ledger, space, "frozen")
		fill(t, l, pool, "frozen", 10)
		l.crash(t, "frozen")
		heir := NewMemoryPool(l.Ledger, space, "heir")
		r, err := l.Reserve(t.Context(), "heir", RangeReserved, 6, 20)
		if err != nil {
			t.Fatal(err)
		}
		heir.Push(r)
		if n := pool.Size(); n != 30 {
			t.Errorf("the pool believes to hold %d keys, want 30", n)
		}
		if left := drain(t, pool, 10); len(left) != 20 {
			t.Errorf("%d keys came out of the pool, want the 20 that were not taken over", len(left))
		}
		if n := pool.Size(); n != 0 {
			t.Errorf("the size of the empty pool is %d", n)
		}
		if s := pool.Status(); s.Taken != 20 {
			t.Errorf("%+v: want the 20 keys that it gave counted as taken", s)
		}
		if left := drain(t, heir, 10); len(left) != 10 {
			t.Errorf("%d keys came to the heir, want 10", len(left))
		}
	})
}

// TestMemoryPoolTakesInTurn shows that a take that waits for another one still
// honours its context.
func TestMemoryPoolTakesInTurn(t *testing.T) {
	onLedgers(t, func(t *testing.T, l books) {
		pool := NewMemoryPool(l.Ledger, openWith(t, l, 10), "a")
		fill(t, l, pool, "a", 10)
		var wg sync.WaitGroup
		l.whileLocked(t, func() {
			wg.Go(func() { drain(t, pool, 10) }) // waits for the lock of the ledger, or its turn
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := pool.Take(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("a take that had to wait: %v", err)
			}
		})
		wg.Wait()
	})
}
