package mempool

import (
	"context"
	"errors"
	"sync"
	"testing"

	"keypool/kgs"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestLedgerSupplyFollowsSupplyContract(t *testing.T) {
	kgstest.OnEngines(t, func(t *testing.T, newLedger func(*testing.T) kgstest.LedgerUnderTest) {
		kgstest.TestSupply(t, func(t *testing.T, keys int) kgstest.SupplyUnderTest {
			l := newLedger(t)
			return kgstest.SupplyUnderTest{Supply: NewLedgerSupply(l.Ledger, kgstest.OpenWith(t, l, keys), "a", 6)}
		})
	})
}

func TestMemoryPoolFollowsSupplyContract(t *testing.T) {
	kgstest.OnEngines(t, func(t *testing.T, newLedger func(*testing.T) kgstest.LedgerUnderTest) {
		kgstest.TestSupply(t, func(t *testing.T, keys int) kgstest.SupplyUnderTest {
			l := newLedger(t)
			pool := New(l.Ledger, kgstest.OpenWith(t, l, keys), "a")
			refill := func(t *testing.T) { fill(t, l, pool, "a", 7) }
			fill(t, l, pool, "a", 500)
			return kgstest.SupplyUnderTest{Supply: pool, Refill: refill}
		})
	})
}

// fill reserves all remaining numbers in ranges of up to n numbers, and pushes the ranges to the pool.
func fill(t *testing.T, l kgstest.LedgerUnderTest, pool *Pool, holder string, n int64) {
	t.Helper()
	for {
		r, err := l.Reserve(t.Context(), holder, ledger.StateReserved, 6, n)
		if errors.Is(err, kgs.ErrExhausted) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		pool.Push(r)
	}
}

func TestMemoryPoolDropsRangesThatWereTakenOver(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		space := kgstest.OpenWith(t, l, 30)
		pool := New(l.Ledger, space, "frozen")
		fill(t, l, pool, "frozen", 10)
		l.DeclareDead(t, "frozen")
		heir := New(l.Ledger, space, "heir")
		r, err := l.Reserve(t.Context(), "heir", ledger.StateReserved, 6, 20)
		if err != nil {
			t.Fatal(err)
		}
		heir.Push(r)
		if n := pool.Len(); n != 30 {
			t.Errorf("the pool reports %d keys, want 30", n)
		}
		if left := kgstest.Drain(t, pool, 10); len(left) != 20 {
			t.Errorf("Take returned %d keys of the pool, want the 20 keys that were not taken over", len(left))
		}
		if n := pool.Len(); n != 0 {
			t.Errorf("the empty pool reports %d keys, want 0", n)
		}
		if s := pool.Status(); s.Taken != 20 {
			t.Errorf("Status = %+v, want 20 keys taken", s)
		}
		if left := kgstest.Drain(t, heir, 10); len(left) != 10 {
			t.Errorf("the heir has %d keys, want 10", len(left))
		}
	})
}

// TestMemoryPoolTakeReturnsWhenContextEnds checks that a Take whose context has ended returns although it would
// have to wait for the ledger or for another Take.
func TestMemoryPoolTakeReturnsWhenContextEnds(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		pool := New(l.Ledger, kgstest.OpenWith(t, l, 10), "a")
		fill(t, l, pool, "a", 10)
		var wg sync.WaitGroup
		l.WhileLocked(t, func() {
			wg.Go(func() { kgstest.Drain(t, pool, 10) }) // waits for the lock of the ledger, or for the other Take
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := pool.Take(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Take with a cancelled context while the ledger is locked: error %v, want Canceled", err)
			}
		})
		wg.Wait()
	})
}
