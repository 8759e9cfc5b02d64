package kgs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLedgerJumps has the database come back from an older state, told by the name of its
// history, or by what this process has seen of it before.
func TestLedgerJumps(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		for _, comeBack := range []func(){
			func() { l.exec(t, `UPDATE kgs_ledger SET history = 'of another server'`) },
			func() { l.exec(t, `UPDATE kgs_ledger SET last_range = 0`) },
		} {
			l.exec(t, `DELETE FROM kgs_ranges`)
			l.exec(t, `UPDATE kgs_spaces SET next = 100 WHERE length = 3`)
			l.ForgetNumbers()
			l.reserve(t, "a", RangeBatch, 50)      // [100, 150)
			l.reserve(t, "a", RangeReserved, 1000) // [150, 1150), which the lost state did not have
			l.exec(t, `DELETE FROM kgs_ranges WHERE state = 'reserved'`)
			l.exec(t, `UPDATE kgs_spaces SET next = 150 WHERE length = 3`)
			comeBack()
			to := 1150 + Size(3)/SkipPart
			if r := l.reserve(t, "b", RangeBatch, 10); r.Lo != to {
				t.Errorf("reserved %+v, want it to begin at %d", r.Run, to)
			}
			l.want(t, lostRow(100, to, ReasonRollback), row(to, to+10, RangeBatch, "b"))
			if r := l.reserve(t, "b", RangeBatch, 10); r.Lo != to+10 {
				t.Errorf("it jumped again: %+v", r.Run)
			}
		}
	})
}

func TestLedgerJumpsIntoTheNextLength(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		size := Size(3)
		l.exec(t, `UPDATE kgs_spaces SET next = $1 WHERE length = 3`, size-100)
		l.exec(t, `UPDATE kgs_ledger SET history = 'of another server', epoch = 7`)
		r := l.reserve(t, "a", RangeShipping, 10)
		lo := Size(4) / SkipPart
		want := Range{Run{4, lo, lo + 10}, r.ID, 8}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		all, err := l.Books(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all.Boundaries); n != 8 || all.Epoch.Pool != "" {
			t.Errorf("%d boundaries of epoch %+v", n, all.Epoch)
		}
	})
}

// TestLedgerJumpsOverWhatThePoolRemembers restores a ledger whose range ids have caught up
// again: only how far the numbers went tells, and nobody but the pool has seen that.
func TestLedgerJumpsOverWhatThePoolRemembers(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.reserve(t, "a", RangeBatch, 100)
		var left int64
		l.OnJump(func(n int64) { left += n })
		l.Remember(Reach{Range: 1, Next: map[int]int64{3: 9000}})
		to := 9000 + Size(3)/SkipPart
		if r := l.reserve(t, "a", RangeBatch, 10); r.Lo != to {
			t.Errorf("reserved %+v, want it to begin at %d", r.Run, to)
		}
		if left != to-100 {
			t.Errorf("told of %d numbers left out, want %d", left, to-100)
		}
	})
}

// TestAbandonAcrossAJump gives up a batch of which a part was written off otherwise.
func TestAbandonAcrossAJump(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		abandon := func(lo, hi int64, reason string) {
			if err := l.Abandon(t.Context(), []Run{{3, lo, hi}}, reason); err != nil {
				t.Fatal(err)
			}
		}
		abandon(20, 30, ReasonRollback)
		abandon(40, 50, ReasonRollback)
		for range 2 {
			abandon(10, 60, ReasonCrash)
		}
		abandon(25, 35, ReasonCrash)
		l.want(t, lostRow(10, 20, ReasonCrash), lostRow(20, 30, ReasonRollback), lostRow(30, 40, ReasonCrash),
			lostRow(40, 50, ReasonRollback), lostRow(50, 60, ReasonCrash))
	})
}
