package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// wantNoLease sends a request for keys. The ledger must refuse the request with the error want.
func wantNoLease(t testing.TB, l kgstest.LedgerUnderTest, client, id string, want error) {
	t.Helper()
	lease, err := l.Lend(t.Context(), ledger.LeaseRequest{Client: client, ID: id, Length: 3, Count: 10, Term: time.Hour})
	if !errors.Is(err, want) {
		t.Errorf("request %s got %+v, error %v; want %v", id, lease, err, want)
	}
}

func TestLendReturnsSameLeaseForRepeatedRequest(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		want := l.MustLend(t, "a", "1", 100)
		if until := time.Until(want.Expires); until > time.Hour+time.Minute || until < time.Hour-time.Minute {
			t.Errorf("the lease expires in %s, want an hour", until)
		}
		if want.Repeated {
			t.Error("Repeated is set in the answer to the first request")
		}
		want.Repeated = true
		for _, again := range []ledger.Lease{l.MustLend(t, "a", "1", 100), l.Reopen().MustLend(t, "a", "1", 7)} {
			if diff := cmp.Diff(want, again); diff != "" {
				t.Errorf("lease of the repeated request (-want +got):\n%s", diff)
			}
		}
		if other := l.MustLend(t, "b", "1", 100); other.ID == want.ID || other.Ranges[0].Lo != 100 {
			t.Errorf("a request of another client with the same id got %+v, want another lease that begins at number 100",
				other)
		}
		// The ledger cannot repeat its answer to a request whose record is deleted.
		l.Exec(t, `DELETE FROM kgs_leases WHERE client = 'a'`)
		if again := l.MustLend(t, "a", "1", 100); again.Ranges[0].Lo != 200 {
			t.Errorf("after its record was deleted, the request got %+v, want a new lease that begins at number 200",
				again)
		}
	})
}

func TestConcurrentLendCallsMakeOneLeasePerRequest(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		leases := kgstest.InParallel(t, func(i int) (ledger.Lease, error) {
			return l.Reopen().Lend(t.Context(), ledger.LeaseRequest{
				Client: "a", ID: fmt.Sprint("request ", i%2), Length: 3, Count: 50, Term: time.Hour,
			})
		})
		first := 0
		for i := range leases {
			if !leases[i].Repeated {
				first++
			}
			leases[i].Repeated = true
			if diff := cmp.Diff(leases[i%2], leases[i]); diff != "" {
				t.Errorf("leases of request %d (-first +this):\n%s", i%2, diff)
			}
		}
		if first != 2 {
			t.Errorf("%d leases do not have Repeated set, want one for each of two requests", first)
		}
		if leases[0].Ranges[0] == leases[1].Ranges[0] {
			t.Error("two requests got the same keys")
		}
		l.WantRows(t, kgstest.Row(0, 50, ledger.StateBatch, ""), kgstest.Row(50, 100, ledger.StateBatch, ""))
	})
}

// TestLendIsAtomic simulates a crash just before the commit and the loss of an answer just after
// the commit. After the crash, the ledger must be unchanged. After the loss, a repeated request
// must return the same lease.
func TestLendIsAtomic(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		crash := errors.New("crash")
		for _, step := range []string{"lend", "gather"} {
			err := l.Update(t.Context(), "test", func(ctx context.Context, p *ledger.Tx) (err error) {
				if step == "lend" {
					err = p.LendStep(ctx, ledger.LeaseRequest{Client: "a", ID: "1", Length: 3, Count: 10, Term: time.Hour})
				} else {
					err = p.GatherStep(ctx, 3, 10)
				}
				return errors.Join(err, crash)
			})
			if !errors.Is(err, crash) {
				t.Fatal(err)
			}
			counters, err := l.Counters(t.Context())
			if err != nil || counters.Reserved() != 0 {
				t.Errorf("%d numbers are reserved after a crash in %s, error %v; want none",
					counters.Reserved(), step, err)
			}
		}
		l.MustLend(t, "a", "1", 10)
		if again := l.Reopen().MustLend(t, "a", "1", 10); again.Ranges[0] != (codespace.Range{Length: 3, Lo: 0, Hi: 10}) {
			t.Errorf("after a lost answer the request got %+v, want the numbers [0, 10)", again)
		}
		l.WantRows(t, kgstest.Row(0, 10, ledger.StateBatch, ""))
	})
}

func TestEndLeaseRecordsEveryOutcome(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		lease := l.MustLend(t, "a", "1", 100)
		for name, tt := range map[string]struct {
			client string
			id     int64
			unused []codespace.Range
			want   error
		}{
			"lease of another client": {"b", lease.ID, nil, ledger.ErrNoLease},
			"unknown lease":           {"a", lease.ID + 100, nil, ledger.ErrNoLease},
			"keys outside the lease":  {"a", lease.ID, []codespace.Range{{Length: 3, Lo: 90, Hi: 101}}, ledger.ErrNotOfLease},
			"keys of another length":  {"a", lease.ID, []codespace.Range{{Length: 4, Lo: 0, Hi: 10}}, ledger.ErrNotOfLease},
			"keys that occur twice":   {"a", lease.ID, []codespace.Range{{Length: 3, Lo: 0, Hi: 10}, {Length: 3, Lo: 9, Hi: 11}}, ledger.ErrNotOfLease},
		} {
			if _, err := l.EndLease(t.Context(), tt.client, tt.id, tt.unused, nil); !errors.Is(err, tt.want) {
				t.Errorf("%s: error %v, want %v", name, err, tt.want)
			}
		}
		l.WantRows(t, kgstest.Row(0, 100, ledger.StateBatch, ""))
		for _, want := range []int64{80, 0} {
			kept := l.MustEndLease(t, "a", lease.ID, []codespace.Range{{Length: 3, Lo: 50, Hi: 55}, {Length: 3, Lo: 90, Hi: 100}}, []codespace.Range{{Length: 3, Lo: 10, Hi: 15}})
			if kept != want {
				t.Errorf("the client keeps %d keys, want %d", kept, want)
			}
			l.WantRows(t, kgstest.AbandonedRow(0, 10, kgs.ReasonClient), kgstest.AbandonedRow(10, 15, kgs.ReasonLostReply), kgstest.AbandonedRow(15, 50, kgs.ReasonClient),
				kgstest.Row(50, 55, ledger.StateReserved, ""), kgstest.AbandonedRow(55, 90, kgs.ReasonClient), kgstest.Row(90, 100, ledger.StateReserved, ""))
		}
		wantNoLease(t, l, "a", "1", ledger.ErrLeaseReturned)
		second := l.MustLend(t, "b", "2", 20) // Lend uses the returned numbers first
		if diff := cmp.Diff([]codespace.Range{{Length: 3, Lo: 50, Hi: 55}, {Length: 3, Lo: 90, Hi: 100}, {Length: 3, Lo: 100, Hi: 105}}, second.Ranges); diff != "" {
			t.Errorf("ranges of the second lease (-want +got):\n%s", diff)
		}
		// An unused range may span adjacent ranges of the lease.
		l.MustEndLease(t, "b", second.ID, []codespace.Range{{Length: 3, Lo: 95, Hi: 103}}, nil)
	})
}

func TestEndLeaseTakesBackOnlyLongestUnusedRanges(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		lease := l.MustLend(t, "a", "1", 1000)
		unused := []codespace.Range{{Length: 3, Lo: 900, Hi: 950}}
		for n := range int64(400) {
			unused = append(unused, codespace.Range{Length: 3, Lo: 2 * n, Hi: 2*n + 1})
		}
		if kept := l.MustEndLease(t, "a", lease.ID, unused, nil); kept != 1000-50-(ledger.LeaseRanges-1) {
			t.Errorf("the client keeps %d keys, want all keys except the keys of the longest unused ranges", kept)
		}
		for n := range int64(10) {
			l.MustLend(t, "a", fmt.Sprint("again ", n), 500)
		}
		if last := l.MustLend(t, "a", "last", 500); len(last.Ranges) != 1 {
			t.Errorf("the last lease has %d ranges, want 1", len(last.Ranges))
		}
	})
}

func TestScatteredUnusedKeysDoNotFillLedger(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		const perLease, leases = 2 * ledger.LeaseRanges, ledger.MaxReserved/ledger.LeaseRanges + 2
		var all []ledger.Lease
		for i := range leases {
			all = append(all, l.MustLend(t, "a", fmt.Sprint(i), perLease))
		}
		kept, unused := int64(0), int64(0)
		for _, lease := range all {
			var odd []codespace.Range
			for n := lease.Ranges[0].Lo; n < lease.Ranges[0].Hi; n += 2 {
				odd = append(odd, codespace.Range{Length: 3, Lo: n, Hi: n + 1})
			}
			kept += l.MustEndLease(t, "a", lease.ID, odd, nil)
		}
		err := l.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM kgs_ranges WHERE state = 'reserved'`).Scan(&unused)
		if err != nil || unused != ledger.MaxReserved || kept != leases*perLease-unused {
			t.Errorf("the ledger has %d reserved ranges and the clients keep %d keys, error %v; want %d ranges, and that the clients keep the other keys",
				unused, kept, err, ledger.MaxReserved)
		}
		if r := l.MustReserve(t, "a", ledger.StateShipping, 10_000); r.Len() != 10_000 {
			t.Errorf("a worker reserved %d numbers, want 10000 new numbers", r.Len())
		}
		if lease := l.MustLend(t, "a", "last", 1000); len(lease.Ranges) != ledger.LeaseRanges+1 {
			t.Errorf("a lease has %d ranges, want new numbers and %d ranges that were returned", len(lease.Ranges), ledger.LeaseRanges)
		}
	})
}

func TestClientKeepsKeysOfExpiredLease(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		over, returned := l.MustLend(t, "a", "over", 50), l.MustLend(t, "a", "returned", 50)
		l.MustEndLease(t, "a", returned.ID, []codespace.Range{{Length: 3, Lo: 50, Hi: 100}}, nil)
		l.ExpireAll(t, 0)
		l.MustLend(t, "a", "alive", 10)
		check := func() {
			t.Helper()
			wantNoLease(t, l, "a", "over", ledger.ErrLeaseExpired)
			wantNoLease(t, l, "a", "returned", ledger.ErrLeaseReturned)
			if _, err := l.EndLease(t.Context(), "a", over.ID, []codespace.Range{{Length: 3, Lo: 0, Hi: 50}}, nil); !errors.Is(err, ledger.ErrLeaseExpired) {
				t.Errorf("EndLease of an expired lease: %v, want ErrLeaseExpired", err)
			}
		}
		check()
		for _, want := range []int64{50, 0} {
			if kept, err := l.ExpireLeases(t.Context()); err != nil || kept != want {
				t.Errorf("%d keys expired, want %d; error %v", kept, want, err)
			}
			l.WantRows(t, kgstest.AbandonedRow(0, 50, kgs.ReasonClient), kgstest.Row(50, 60, ledger.StateBatch, ""), kgstest.Row(60, 100, ledger.StateReserved, ""))
		}
		check()
		l.ExpireAll(t, ledger.LeaseMemory)
		if kept, err := l.ExpireLeases(t.Context()); err != nil || kept != 10 {
			t.Errorf("%d keys expired, want the 10 keys of the lease that was open; error %v", kept, err)
		}
		if again := l.MustLend(t, "a", "over", 50); again.Ranges[0] != (codespace.Range{Length: 3, Lo: 60, Hi: 100}) {
			t.Errorf("a request whose record is deleted got %+v, want the returned numbers [60, 100)", again.Ranges)
		}
	})
}

// The test makes more leases than one transaction can end.
func TestExpireLeasesEndsManyLeases(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		for i := range ledger.ExpireAtOnce + 1 {
			l.MustLend(t, "a", fmt.Sprint(i), 1)
		}
		l.ExpireAll(t, ledger.LeaseMemory)
		if kept, err := l.ExpireLeases(t.Context()); err != nil || kept != ledger.ExpireAtOnce+1 {
			t.Errorf("%d keys expired, error %v; want one key of each lease", kept, err)
		}
		l.WantRows(t, kgstest.AbandonedRow(0, ledger.ExpireAtOnce+1, kgs.ReasonClient))
		var rows int
		if err := l.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM kgs_leases`).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d leases are on record, error %v; want none", rows, err)
		}
	})
}

// TestExpireLeasesLimitsRangesPerTransaction expires leases of scattered keys. Each transaction must
// end a limited number of ranges, because all other changes wait for the transaction.
func TestExpireLeasesLimitsRangesPerTransaction(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		const leases = 5
		for i := range leases {
			l.MustLend(t, "a", fmt.Sprint(i), 1)
		}
		l.Exec(t, `WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < $1)
			INSERT INTO kgs_ranges (id, length, lo, hi, state, epoch, lease)
			SELECT -n, 3, 10 + 2 * n, 11 + 2 * n, 'batch', 0, 1 + n % $2 FROM seq`, leases*ledger.LeaseRanges, leases)
		l.ExpireAll(t, 0)
		kept := int64(0)
		err := l.Update(t.Context(), "test", func(ctx context.Context, p *ledger.Tx) (err error) {
			kept, err = p.ExpireStep(ctx)
			return err
		})
		if err != nil || kept < ledger.ExpireRanges || kept > ledger.ExpireRanges+ledger.LeaseRanges {
			t.Errorf("one transaction ended %d ranges of one key each, error %v; want about ExpireRanges", kept, err)
		}
		rest, err := l.ExpireLeases(t.Context())
		if err != nil || kept+rest != leases*(ledger.LeaseRanges+1) {
			t.Errorf("%d keys expired, then %d, error %v; want the keys of all leases", kept, rest, err)
		}
	})
}

// Sweep ignores leases, because leases have no heartbeats. A batch that has neither a lease nor a
// holder is abandoned.
func TestSweepIgnoresLeases(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustLend(t, "a", "1", 10)
		if n, err := l.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("Sweep abandoned %d numbers of a lease, error %v; want none", n, err)
		}
		l.Exec(t, `UPDATE kgs_ranges SET lease = 0`)
		if n, err := l.Sweep(t.Context()); err != nil || n != 10 {
			t.Errorf("Sweep abandoned %d numbers of a batch without a holder, error %v; want 10", n, err)
		}
	})
}

// A skip-ahead ends the open leases. It also abandons the numbers that clients returned, because these numbers may have
// been handed out again in the lost history.
func TestSkipAheadEndsLeases(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.SkipLeast()
		var abandoned int64
		l.OnSkipAhead(func(n int64) { abandoned += n })
		lease, returned := l.MustLend(t, "a", "1", 10), l.MustLend(t, "a", "2", 10)
		l.MustEndLease(t, "a", returned.ID, []codespace.Range{{Length: 3, Lo: 10, Hi: 20}}, nil)
		l.Remember(ledger.HighWaterMark{Next: map[int]int64{3: 5000}})
		to := 5000 + codespace.Size(3)/ledger.SkipPart
		if after := l.MustLend(t, "a", "3", 30); len(after.Ranges) != 1 || after.Ranges[0] != (codespace.Range{Length: 3, Lo: to, Hi: to + 20}) {
			t.Errorf("after the skip-ahead: %+v, want no range from before the skip-ahead", after.Ranges)
		}
		wantNoLease(t, l, "a", "1", ledger.ErrLeaseExpired)
		if _, err := l.EndLease(t.Context(), "a", lease.ID, []codespace.Range{{Length: 3, Lo: 0, Hi: 10}}, nil); !errors.Is(err, ledger.ErrLeaseExpired) {
			t.Errorf("EndLease after the skip-ahead: %v, want ErrLeaseExpired", err)
		}
		l.WantRows(t, kgstest.AbandonedRow(0, to, kgs.ReasonRollback), kgstest.Row(to, to+20, ledger.StateBatch, ""))
		if abandoned != to {
			t.Errorf("OnSkipAhead got %d numbers, want %d", abandoned, to)
		}
	})
}

func TestLendReturnsFewerNumbersAtEndOfSpace(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.Exec(t, `UPDATE kgs_spaces SET next = size`)
		wantNoLease(t, l, "a", "1", kgs.ErrExhausted)
		l.Exec(t, `UPDATE kgs_spaces SET next = size - 7 WHERE length IN (3, 10)`)
		for i, want := range []codespace.Range{{Length: 3, Lo: codespace.Size(3) - 7, Hi: codespace.Size(3)}, {Length: 10, Lo: codespace.Size(10) - 7, Hi: codespace.Size(10)}} {
			if lease := l.MustLend(t, "a", fmt.Sprint("2", i), 10); len(lease.Ranges) != 1 || lease.Ranges[0] != want {
				t.Errorf("the lease has the ranges %+v, want %+v", lease.Ranges, want)
			}
		}
		wantNoLease(t, l, "a", "1", kgs.ErrExhausted)
	})
}
