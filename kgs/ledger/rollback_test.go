package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// TestLedgerSkipsAheadAfterRollback restores the database to an older state. Each case shows the rollback in another way:
// the history name changed, the last id is below the high-water mark of the process, or Restored recorded the restore.
func TestLedgerSkipsAheadAfterRollback(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.SkipLeast()
		for _, comeBack := range []func(){
			func() { l.Exec(t, `UPDATE kgs_ledger SET history = 'of another server'`) },
			func() { l.Exec(t, `UPDATE kgs_ledger SET last_range = 0`) },
			func() {
				if err := l.Restored(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		} {
			l.Exec(t, `DELETE FROM kgs_ranges`)
			l.Exec(t, `UPDATE kgs_spaces SET next = 100 WHERE length = 3`)
			l.ForgetNumbers()
			l.MustReserve(t, "a", ledger.StateBatch, 50)      // reserves [100, 150)
			l.MustReserve(t, "a", ledger.StateReserved, 1000) // reserves [150, 1150); the restored state lacks it
			l.Exec(t, `DELETE FROM kgs_ranges WHERE state = 'reserved'`)
			l.Exec(t, `UPDATE kgs_spaces SET next = 150 WHERE length = 3`)
			comeBack()
			to := 1150 + codespace.Size(3)/ledger.SkipPart
			if r := l.MustReserve(t, "b", ledger.StateBatch, 10); r.Lo != to {
				t.Errorf("reserved %+v, want it to begin at %d", r.Range, to)
			}
			l.Exec(t, `DELETE FROM kgs_ranges WHERE length > 3`) // a skip-ahead skips these lengths too; see TestSkipAheadSkipsNumbersOfEveryCodeLength
			l.WantRows(t, kgstest.AbandonedRow(100, to, kgs.ReasonRollback), kgstest.Row(to, to+10, ledger.StateBatch, "b"))
			if r := l.MustReserve(t, "b", ledger.StateBatch, 10); r.Lo != to+10 {
				t.Errorf("the ledger skipped ahead a second time: %+v", r.Range)
			}
		}
	})
}

// A database may return to the same state twice, for example because an operator restores the same backup twice. After the
// second return, the ledger must not issue the numbers that it issued after the first return.
func TestLedgerRepeatsNoNumberAfterSecondRollbackToSameState(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		var first []int64
		var ids []int64
		for range 2 {
			l.Exec(t, `DELETE FROM kgs_ranges`)
			l.Exec(t, `UPDATE kgs_spaces SET next = 0`)
			l.Exec(t, `UPDATE kgs_ledger SET last_range = 0`)
			l.ForgetHighWaterMark() // all processes have ended
			if err := l.Restored(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := l.Reserve(t.Context(), "a", ledger.StateBatch, 6, 1)
			if err != nil {
				t.Fatal(err)
			}
			if first, ids = append(first, r.Lo), append(ids, r.ID); r.Lo < ledger.SkipMargin || r.Lo >= 2*ledger.SkipMargin {
				t.Errorf("the ledger begins at %d, want a number from %d to %d", r.Lo, ledger.SkipMargin, 2*ledger.SkipMargin-1)
			}
		}
		if first[0] == first[1] || ids[0] == ids[1] {
			t.Errorf("after two returns, the ledger begins at the numbers %d with the ids %d, want different ones", first, ids)
		}
	})
}

// The lost history may have the first numbers of a code length, for example because the minimum code length was raised. The
// ledger has no record of these numbers, but must skip them.
func TestSkipAheadSkipsNumbersOfEveryCodeLength(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.SkipLeast()
		for _, comeBack := range []func(){
			func() {
				if err := l.Restored(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			func() { l.Exec(t, `UPDATE kgs_ledger SET history = 'of another server'`) }, // as after a failover
		} {
			l.Exec(t, `DELETE FROM kgs_ranges`)
			l.Exec(t, `UPDATE kgs_spaces SET next = 0`)
			l.ForgetNumbers() // all processes have ended
			comeBack()
			for length := 3; length <= 5; length++ {
				want := min(codespace.Size(length)/ledger.SkipPart, ledger.SkipMargin)
				if r, err := l.Reserve(t.Context(), "a", ledger.StateBatch, length, 10); err != nil || r.Lo != want {
					t.Errorf("reserved %+v of length %d, error %v; want it to begin at %d", r.Range, length, err, want)
				}
			}
		}
	})
}

func TestSkipAheadUsesLongerCodesWhenShortCodesAreUsedUp(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.SkipLeast()
		size := codespace.Size(3)
		l.Exec(t, `UPDATE kgs_spaces SET next = $1 WHERE length = 3`, size-100)
		l.Exec(t, `UPDATE kgs_ledger SET history = 'of another server', epoch = 7`)
		r := l.MustReserve(t, "a", ledger.StateShipping, 10)
		lo := codespace.Size(4) / ledger.SkipPart
		want := ledger.Reservation{Range: codespace.Range{Length: 4, Lo: lo, Hi: lo + 10}, ID: r.ID, Epoch: 1008} // 1,000 epochs are skipped
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("reservation after the skip-ahead (-want +got):\n%s", diff)
		}
		all, err := l.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all.Boundaries); n != 8 || all.Epoch.Pool != "" {
			t.Errorf("%d boundaries and epoch %+v, want 8 boundaries and an epoch without a pool", n, all.Epoch)
		}
	})
}

// TestSkipAheadExceedsHighWaterMarkOfPool simulates a rollback that the range ids no longer show, because the ledger
// has since reserved as many ranges as before. Only the numbers show the rollback, and only the pool has a record of the
// higher numbers.
func TestSkipAheadExceedsHighWaterMarkOfPool(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.SkipLeast()
		l.MustReserve(t, "a", ledger.StateBatch, 100)
		var abandoned int64
		l.OnSkipAhead(func(n int64) { abandoned += n })
		l.Remember(ledger.HighWaterMark{ID: 1, Next: map[int]int64{3: 9000}})
		to := 9000 + codespace.Size(3)/ledger.SkipPart
		if r := l.MustReserve(t, "a", ledger.StateBatch, 10); r.Lo != to {
			t.Errorf("reserved %+v, want it to begin at %d", r.Range, to)
		}
		if abandoned != to { // the batch on record and the skipped numbers
			t.Errorf("OnSkipAhead got %d numbers, want %d", abandoned, to)
		}
	})
}

// TestAbandonKeepsReasonOfNumbersAbandonedBefore abandons a batch. Parts of the batch are already
// abandoned for another reason.
func TestAbandonKeepsReasonOfNumbersAbandonedBefore(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		abandon := func(lo, hi int64, reason string) {
			if err := l.Abandon(t.Context(), []codespace.Range{{Length: 3, Lo: lo, Hi: hi}}, reason); err != nil {
				t.Fatal(err)
			}
		}
		abandon(20, 30, kgs.ReasonRollback)
		abandon(40, 50, kgs.ReasonRollback)
		for range 2 {
			abandon(10, 60, kgs.ReasonCrash)
		}
		abandon(25, 35, kgs.ReasonCrash)
		l.WantRows(t, kgstest.AbandonedRow(10, 20, kgs.ReasonCrash), kgstest.AbandonedRow(20, 30, kgs.ReasonRollback), kgstest.AbandonedRow(30, 40, kgs.ReasonCrash),
			kgstest.AbandonedRow(40, 50, kgs.ReasonRollback), kgstest.AbandonedRow(50, 60, kgs.ReasonCrash))
	})
}

func TestRepeatedEpochCountIncludesOnlyPoolsWithSeveralEpochs(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		// Failovers give the pool new names. Then two pools, a and b, alternate.
		for epoch, next := range []struct {
			pool     string
			repeated int
		}{{"failover 1", 0}, {"failover 2", 0}, {"failover 3", 0}, {"a", 0}, {"b", 0}, {"a", 2}, {"b", 4}, {"b", 5}} {
			if _, _, err := l.OpenEpoch(t.Context(), int64(epoch), next.pool); err != nil {
				t.Fatal(err)
			}
			if n, last, err := l.List(0).RepeatedEpochs(t.Context(), time.Hour); n != next.repeated || last < 0 || last > time.Minute || err != nil {
				t.Errorf("after epoch %d, for the pool %s: RepeatedEpochs = %d, %v, %v, want %d", epoch+1, next.pool, n, last, err, next.repeated)
			}
		}
		l.Exec(t, `UPDATE kgs_epochs SET opened_at = (SELECT min(created_at) FROM kgs_ledger)`)
		if n, _, err := l.List(0).RepeatedEpochs(t.Context(), time.Nanosecond); n != 0 || err != nil {
			t.Errorf("RepeatedEpochs of a nanosecond = %d, %v, want 0", n, err)
		}
	})
}

func TestEachLedgerDatabaseHasPermanentUniqueName(t *testing.T) {
	one, two := kgstest.NewPostgresLedger(t), kgstest.NewPostgresLedger(t)
	for _, l := range []kgstest.LedgerUnderTest{one, two} {
		if _, err := l.Open(t.Context(), ledger.Config{Permute: true}); err != nil {
			t.Fatal(err)
		}
	}
	if one.Database() == two.Database() || one.Database() == "" || one.Reopen().Database() != "" {
		t.Errorf("the databases have the names %q and %q, want two different names", one.Database(), two.Database())
	}
	again := one.Reopen()
	if _, err := again.Identify(t.Context(), ledger.Config{Permute: true}); err != nil || again.Database() != one.Database() {
		t.Errorf("the database has the name %q, and %q after a restart (error %v)", one.Database(), again.Database(), err)
	}
}

func TestRestoredFailsWithoutLedger(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.Exec(t, `DELETE FROM kgs_ledger`)
		if err := l.Restored(t.Context()); !errors.Is(err, ledger.ErrNotInitialized) {
			t.Errorf("Restored = %v, want ErrNotInitialized", err)
		}
	})
}
