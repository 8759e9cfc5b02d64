package ledger_test

import (
	"maps"
	"testing"

	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// mustOpen opens an epoch of a list and returns its number.
func mustOpen(t *testing.T, l kgstest.LedgerUnderTest, list int, after int64) int64 {
	t.Helper()
	number, opened, err := l.List(list).OpenEpoch(t.Context(), after, "pool")
	if err != nil || !opened {
		t.Fatalf("OpenEpoch of list %d after %d: opened %v, %v", list, after, opened, err)
	}
	return number
}

func mustShip(t *testing.T, l kgstest.LedgerUnderTest, list int, holder string) ledger.Reservation {
	t.Helper()
	r, err := l.List(list).Reserve(t.Context(), holder, ledger.StateShipping, 3, 10)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A new epoch of a list concerns only the ranges on their way to this list.
func TestEachPoolListHasSeparateEpochs(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		if a, b := mustOpen(t, l, 0, 0), mustOpen(t, l, 1, 0); a != 1 || b != 2 {
			t.Fatalf("the first epochs of two lists are %d and %d, want 1 and 2", a, b)
		}
		first, second := mustShip(t, l, 0, "a"), mustShip(t, l, 1, "b")
		if first.Epoch != 1 || second.Epoch != 2 {
			t.Errorf("the ranges %+v and %+v are not of the epochs of their lists", first, second)
		}
		l.DeclareDead(t, "a")
		l.DeclareDead(t, "b")
		if r := mustShip(t, l, 1, "c"); r != second {
			t.Errorf("list 1 adopted %+v, want its range %+v", r, second)
		}
		if n := mustOpen(t, l, 1, 2); n != 3 {
			t.Errorf("the next epoch of list 1 is %d, want 3", n)
		}
		if r := mustShip(t, l, 0, "d"); r != first {
			t.Errorf("list 0 adopted %+v, want its range %+v, which the epoch of list 1 does not concern", r, first)
		}
		epochs, err := l.Epochs(t.Context())
		if err != nil || !maps.Equal(epochs, map[int]int64{0: 1, 1: 3}) {
			t.Errorf("Epochs = %v, %v, want 1 of list 0 and 3 of list 1", epochs, err)
		}
		// A range that stays on its way to list 0 does not keep the floor of list 1 low.
		r := mustShip(t, l, 1, "c")
		if floor, err := l.Deliver(t.Context(), r); err != nil || floor <= r.ID {
			t.Errorf("Deliver of range %d of list 1 returned the floor %d, %v, want a floor above the range",
				r.ID, floor, err)
		}
	})
}

// After a rollback of the database, every list needs a new epoch, and no epoch of the lost history is used again.
func TestLedgerOpensEpochOfEachListAfterRollback(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		mustOpen(t, l, 0, 0)
		mustOpen(t, l, 1, 0)
		if n := mustOpen(t, l, 1, 7); n <= 7 { // the pool of list 1 has an epoch that the ledger does not know
			t.Errorf("the epoch of list 1 is %d, want an epoch after 7, which is the epoch of its pool", n)
		}
		epochs, err := l.Epochs(t.Context())
		if err != nil || epochs[0] <= 7 || epochs[1] <= 7 {
			t.Errorf("Epochs = %v, %v, want epochs after 7 for both lists", epochs, err)
		}
	})
}
