package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestDeliverReturnsLowestRangeIDThatMayBePushed(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		a := l.MustReserve(t, "a", ledger.StateShipping, 10)
		l.MustReserve(t, "x", ledger.StateReserved, 10) // gets an id between the ids of a and b
		b := l.MustReserve(t, "b", ledger.StateShipping, 10)
		for _, step := range []struct {
			deliver ledger.Reservation
			floor   int64
		}{{b, a.ID}, {b, a.ID}, {a, b.ID + 1}, {a, b.ID + 1}} {
			floor, err := l.Deliver(t.Context(), step.deliver)
			if err != nil || floor != step.floor {
				t.Errorf("deliver %d: floor %d, want %d; error %v", step.deliver.ID, floor, step.floor, err)
			}
		}
		// A range that starts shipping now has an id of at least the floor, even with old numbers.
		l.DeclareDead(t, "x")
		if r := l.MustReserve(t, "c", ledger.StateShipping, 10); r.Lo != 10 || r.ID <= b.ID {
			t.Errorf("a range that was taken over is shipping under an id below the floor: %+v", r)
		}
	})
}

func TestSettleRefusesNumbersOutsideBatchAndIsIdempotent(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		r := l.MustReserve(t, "a", ledger.StateBatch, 100)
		for name, ranges := range map[string][]codespace.Range{
			"numbers outside the batch": {{Length: 3, Lo: 90, Hi: 101}},
			"numbers of another length": {{Length: 4, Lo: 0, Hi: 1}},
			"numbers that occur twice":  {{Length: 3, Lo: 10, Hi: 20}, {Length: 3, Lo: 19, Hi: 21}},
			"an empty range":            {{Length: 3, Lo: 10, Hi: 10}},
		} {
			if err := l.Settle(t.Context(), "a", r.ID, ranges[:1], ranges[1:]); err == nil {
				t.Errorf("Settle accepted %s", name)
			}
		}
		l.WantRows(t, kgstest.Row(0, 100, ledger.StateBatch, "a"))
		for range 2 {
			err := l.Settle(t.Context(), "a", r.ID, []codespace.Range{{Length: 3, Lo: 90, Hi: 100}, {Length: 3, Lo: 50, Hi: 51}}, []codespace.Range{{Length: 3, Lo: 10, Hi: 12}, {Length: 3, Lo: 12, Hi: 14}})
			if err != nil {
				t.Fatal(err)
			}
			l.WantRows(t, kgstest.AbandonedRow(10, 14, kgs.ReasonLostReply), kgstest.Row(50, 51, ledger.StateReserved, ""), kgstest.Row(90, 100, ledger.StateReserved, ""))
		}
	})
}

// A key counts as taken when its batch is settled or abandoned. A leased key counts at once, and a returned key does
// not count.
func TestKeyCountsAsTakenWhenBatchIsSettled(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		want := func(when string, reserved, taken int64) {
			t.Helper()
			c, err := l.Counters(t.Context())
			if err != nil || c.Reserved() != reserved || c.Taken() != taken {
				t.Errorf("%s: %d numbers reserved and %d taken, want %d and %d; error %v", when, c.Reserved(), c.Taken(), reserved, taken, err)
			}
		}
		want("before the first range", 0, 0)
		r := l.MustReserve(t, "a", ledger.StateBatch, 100)
		l.MustReserve(t, "a", ledger.StateReserved, 50)
		want("in a range and a batch", 150, 0)
		if err := l.Settle(t.Context(), "a", r.ID, []codespace.Range{{Length: 3, Lo: 90, Hi: 100}}, []codespace.Range{{Length: 3, Lo: 10, Hi: 12}}); err != nil {
			t.Fatal(err)
		}
		want("after the batch is settled", 150, 90)
		l.MustLend(t, "billing", "1", 20)
		want("after a lease", 160, 110)
	})
}

// TestHolderRemainsDeadAfterFailedSweep checks that a holder stays dead when the change that declares
// it dead fails. If the holder counted as alive again, each failure would delay the sweep by another 30 seconds.
func TestHolderRemainsDeadAfterFailedSweep(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "dead", ledger.StateBatch, 10)
		look := func() (int64, error) {
			l.AllowLook()
			return l.Sweep(t.Context())
		}
		for range ledger.DeadAfter {
			if n, err := look(); err != nil || n != 0 {
				t.Fatalf("Sweep abandoned %d numbers of a holder that may be alive, error %v", n, err)
			}
		}
		l.Exec(t, `ALTER TABLE kgs_ranges RENAME TO kgs_ranges_away`)
		if _, err := look(); err == nil {
			t.Fatal("Sweep succeeded without the table of ranges")
		}
		l.Exec(t, `ALTER TABLE kgs_ranges_away RENAME TO kgs_ranges`)
		if n, err := look(); err != nil || n != 10 {
			t.Errorf("after a failure, Sweep abandoned %d numbers, want 10; error %v", n, err)
		}
	})
}

func TestSweepAbandonsBatchesOfDeadHolders(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		r := l.MustReserve(t, "dead", ledger.StateBatch, 10)
		l.MustReserve(t, "alive", ledger.StateBatch, 10)
		l.MustReserve(t, "dead", ledger.StateBatch, 10)
		l.MustReserve(t, "dead", ledger.StateBatch, 10)
		if n, err := l.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("Sweep abandoned %d numbers of live holders, error %v", n, err)
		}
		l.DeclareDead(t, "dead")
		for _, want := range []int64{30, 0} {
			if n, err := l.Sweep(t.Context()); err != nil || n != want {
				t.Errorf("Sweep abandoned %d numbers, want %d; error %v", n, want, err)
			}
		}
		// The holder was only frozen. Its late Settle does not change abandoned numbers.
		if err := l.Settle(t.Context(), "dead", r.ID, []codespace.Range{{Length: 3, Lo: 0, Hi: 5}}, nil); err != nil {
			t.Error(err)
		}
		l.WantRows(t, kgstest.AbandonedRow(0, 10, kgs.ReasonCrash), kgstest.Row(10, 20, ledger.StateBatch, "alive"), kgstest.AbandonedRow(20, 40, kgs.ReasonCrash))
		counters, err := l.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := counters.Reserved(); n != 40 {
			t.Errorf("%d numbers are reserved, want 40", n)
		}
		if s := counters.Current(3); s.Length != 3 || s.UsedRatio() != 40/float64(codespace.Size(3)) {
			t.Errorf("the counter in use is %+v, want the counter of length 3 with 40 numbers reserved", s)
		}
	})
}

func TestAbandonMergesAdjacentRangesAndIsIdempotent(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		for _, ranges := range [][]codespace.Range{
			{{Length: 3, Lo: 10, Hi: 20}, {Length: 3, Lo: 30, Hi: 40}}, {{Length: 3, Lo: 10, Hi: 20}, {Length: 3, Lo: 30, Hi: 40}},
			{{Length: 3, Lo: 20, Hi: 30}}, {{Length: 3, Lo: 10, Hi: 20}}, {{Length: 3, Lo: 30, Hi: 40}}, {{Length: 3, Lo: 20, Hi: 30}},
			{{Length: 3, Lo: 5, Hi: 10}}, {{Length: 3, Lo: 40, Hi: 41}}, {{Length: 3, Lo: 50, Hi: 60}},
		} {
			if err := l.Abandon(t.Context(), ranges, kgs.ReasonCrash); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Abandon(t.Context(), []codespace.Range{{Length: 3, Lo: 41, Hi: 50}}, kgs.ReasonEpoch); err != nil {
			t.Fatal(err)
		}
		l.WantRows(t, kgstest.AbandonedRow(5, 41, kgs.ReasonCrash), kgstest.AbandonedRow(41, 50, kgs.ReasonEpoch), kgstest.AbandonedRow(50, 60, kgs.ReasonCrash))
	})
}

// A worker still pushes a range. A server has already taken the first keys of this range, and dies. These keys cannot
// be abandoned before the range is delivered. Keys with later numbers of the range can be abandoned at once.
func TestAbandonFailsWhileShippingRangeBeginsWithinNumbers(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		if _, _, err := l.OpenEpoch(t.Context(), 0, "pool"); err != nil {
			t.Fatal(err)
		}
		delivered := l.MustReserve(t, "worker", ledger.StateShipping, 10)
		if _, err := l.Deliver(t.Context(), delivered); err != nil {
			t.Fatal(err)
		}
		shipping := l.MustReserve(t, "worker", ledger.StateShipping, 100)
		abandon := func(lo, hi int64) error {
			return l.Abandon(t.Context(), []codespace.Range{{Length: 3, Lo: lo, Hi: hi}}, kgs.ReasonCrash)
		}
		for _, lo := range []int64{10, 5} {
			if err := abandon(lo, 20); !errors.Is(err, ledger.ErrShipping) {
				t.Errorf("Abandon of [%d, 20) = %v, want ErrShipping", lo, err)
			}
		}
		l.WantRows(t, kgstest.Row(10, 110, ledger.StateShipping, "worker"))
		if err := abandon(20, 30); err != nil {
			t.Errorf("Abandon of later numbers: %v", err)
		}
		if _, err := l.Deliver(t.Context(), shipping); err != nil {
			t.Fatal(err)
		}
		if err := abandon(5, 20); err != nil {
			t.Errorf("Abandon after the delivery: %v", err)
		}
		l.WantRows(t, kgstest.AbandonedRow(5, 30, kgs.ReasonCrash))
	})
}

func TestReleaseFreesOnlyRangesOfGivenHolder(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "a", ledger.StateReserved, 10)
		l.MustReserve(t, "a", ledger.StateShipping, 10)
		l.MustReserve(t, "b", ledger.StateReserved, 10)
		if err := l.Release(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		l.WantRows(t, kgstest.Row(0, 10, ledger.StateReserved, ""), kgstest.Row(10, 20, ledger.StateShipping, ""), kgstest.Row(20, 30, ledger.StateReserved, "b"))
	})
}

func TestSweepKeepsBatchOfHolderWithRenewedHeartbeat(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "a", ledger.StateBatch, 10)
		l.DeclareDead(t, "a")
		if err := l.Renew(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("Sweep abandoned %d numbers of a holder with a new heartbeat, error %v", n, err)
		}
	})
}

func TestOpenEpochInParallelOpensOneEpoch(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "a", ledger.StateShipping, 10)
		l.MustReserve(t, "a", ledger.StateBatch, 10)
		numbers := kgstest.InParallel(t, func(i int) (int64, error) {
			number, _, err := l.OpenEpoch(t.Context(), 0, fmt.Sprint("pool ", i))
			return number, err
		})
		if n := slices.Compact(numbers); len(n) != 1 || n[0] != 1 {
			t.Errorf("16 workers opened the epochs %v, want 1", n)
		}
		got, err := l.Epoch(t.Context())
		if err != nil || got.Number != 1 || got.Pool == "" {
			t.Errorf("the epoch is %+v, error %v; want epoch 1 with a pool", got, err)
		}
		all, err := l.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all.Boundaries) != 8 || all.Boundaries[0] != (ledger.Boundary{Epoch: got, Length: 3, Next: 20}) || all.Boundaries[1] != (ledger.Boundary{Epoch: got, Length: 4, Next: 0}) {
			t.Errorf("the boundaries of the epoch are %+v, want 20 for length 3 and 0 for the other lengths",
				all.Boundaries)
		}
		l.WantRows(t, kgstest.Row(10, 20, ledger.StateBatch, "a"))
	})
}
