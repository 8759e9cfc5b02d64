package kgs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// refused asks for keys that there must not be.
func (b books) refused(t testing.TB, client, id string, want error) {
	t.Helper()
	lease, err := b.Lend(t.Context(), LeaseRequest{Client: client, ID: id, Length: 3, Count: 10, Term: time.Hour})
	if !errors.Is(err, want) {
		t.Errorf("request %s got %+v, error %v; want %v", id, lease, err, want)
	}
}

func TestLendRepeats(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		want := l.lend(t, "a", "1", 100)
		if until := time.Until(want.Expires); until > time.Hour+time.Minute || until < time.Hour-time.Minute {
			t.Errorf("it expires in %s, want an hour", until)
		}
		if want.Repeated {
			t.Error("the first time is a repeat")
		}
		want.Repeated = true
		for _, again := range []ClientLease{l.lend(t, "a", "1", 100), l.another().lend(t, "a", "1", 7)} {
			if diff := cmp.Diff(want, again); diff != "" {
				t.Errorf("the same request again (-want +got):\n%s", diff)
			}
		}
		if other := l.lend(t, "b", "1", 100); other.ID == want.ID || other.Runs[0].Lo != 100 {
			t.Errorf("the same id of another client got %+v", other)
		}
		// What is not remembered is not repeated.
		l.exec(t, `DELETE FROM kgs_leases WHERE client = 'a'`)
		if again := l.lend(t, "a", "1", 100); again.Runs[0].Lo != 200 {
			t.Errorf("without its row the request got %+v", again)
		}
	})
}

func TestLendInParallel(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		leases := inParallel(t, func(i int) (ClientLease, error) {
			return l.another().Lend(t.Context(), LeaseRequest{
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
				t.Errorf("request %d (-first +this):\n%s", i%2, diff)
			}
		}
		if first != 2 {
			t.Errorf("%d were the first of their request, want one of each of two", first)
		}
		if leases[0].Runs[0] == leases[1].Runs[0] {
			t.Error("two requests got the same keys")
		}
		l.want(t, row(0, 50, RangeBatch, ""), row(50, 100, RangeBatch, ""))
	})
}

// TestLendIsOneStep breaks off just before the commit, which is where whatever a crash in
// the middle leaves is taken back, and just after it, where the answer is lost.
func TestLendIsOneStep(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		crash := errors.New("crash")
		for _, step := range []string{"lend", "gather"} {
			err := l.Update(t.Context(), "test", func(ctx context.Context, p *Tx) (err error) {
				if step == "lend" {
					err = p.LendStep(ctx, LeaseRequest{Client: "a", ID: "1", Length: 3, Count: 10, Term: time.Hour})
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
				t.Errorf("%d numbers are reserved after a crash in %s, error %v", counters.Reserved(), step, err)
			}
		}
		l.lend(t, "a", "1", 10)
		if again := l.another().lend(t, "a", "1", 10); again.Runs[0] != (Run{3, 0, 10}) {
			t.Errorf("after a lost answer the request got %+v", again)
		}
		l.want(t, row(0, 10, RangeBatch, ""))
	})
}

func TestEndLease(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		lease := l.lend(t, "a", "1", 100)
		for name, tt := range map[string]struct {
			client string
			id     int64
			unused []Run
			want   error
		}{
			"another client's":   {"b", lease.ID, nil, ErrNoLease},
			"one that never was": {"a", lease.ID + 100, nil, ErrNoLease},
			"foreign keys":       {"a", lease.ID, []Run{{3, 90, 101}}, ErrNotOfLease},
			"of another length":  {"a", lease.ID, []Run{{4, 0, 10}}, ErrNotOfLease},
			"named twice":        {"a", lease.ID, []Run{{3, 0, 10}, {3, 9, 11}}, ErrNotOfLease},
		} {
			if _, err := l.EndLease(t.Context(), tt.client, tt.id, tt.unused, nil); !errors.Is(err, tt.want) {
				t.Errorf("%s: error %v, want %v", name, err, tt.want)
			}
		}
		l.want(t, row(0, 100, RangeBatch, ""))
		for _, want := range []int64{80, 0} {
			kept := l.endLease(t, "a", lease.ID, []Run{{3, 50, 55}, {3, 90, 100}}, []Run{{3, 10, 15}})
			if kept != want {
				t.Errorf("the client keeps %d keys, want %d", kept, want)
			}
			l.want(t, lostRow(0, 10, ReasonClient), lostRow(10, 15, ReasonLostReply), lostRow(15, 50, ReasonClient),
				row(50, 55, RangeReserved, ""), lostRow(55, 90, ReasonClient), row(90, 100, RangeReserved, ""))
		}
		l.refused(t, "a", "1", ErrLeaseReturned)
		second := l.lend(t, "b", "2", 20) // what was returned goes first
		if diff := cmp.Diff([]Run{{3, 50, 55}, {3, 90, 100}, {3, 100, 105}}, second.Runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		// Codes do not tell where one of these ends and the next begins.
		l.endLease(t, "b", second.ID, []Run{{3, 95, 103}}, nil)
	})
}

func TestScatteredKeysCostFewRows(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		lease := l.lend(t, "a", "1", 1000)
		unused := []Run{{3, 900, 950}}
		for n := range int64(400) {
			unused = append(unused, Run{3, 2 * n, 2*n + 1})
		}
		if kept := l.endLease(t, "a", lease.ID, unused, nil); kept != 1000-50-(LeaseRanges-1) {
			t.Errorf("the client keeps %d keys", kept)
		}
		for n := range int64(10) {
			l.lend(t, "a", fmt.Sprint("again ", n), 500)
		}
		if last := l.lend(t, "a", "last", 500); len(last.Runs) != 1 {
			t.Errorf("of %d places", len(last.Runs))
		}
	})
}

func TestLeaseExpires(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		over, returned := l.lend(t, "a", "over", 50), l.lend(t, "a", "returned", 50)
		l.endLease(t, "a", returned.ID, []Run{{3, 50, 100}}, nil)
		l.expire(t, 0)
		l.lend(t, "a", "alive", 10)
		check := func() {
			t.Helper()
			l.refused(t, "a", "over", ErrLeaseExpired)
			l.refused(t, "a", "returned", ErrLeaseReturned)
			if _, err := l.EndLease(t.Context(), "a", over.ID, []Run{{3, 0, 50}}, nil); !errors.Is(err, ErrLeaseExpired) {
				t.Errorf("returned what has expired: %v", err)
			}
		}
		check()
		for _, want := range []int64{50, 0} {
			if kept, err := l.ExpireLeases(t.Context()); err != nil || kept != want {
				t.Errorf("%d keys expired, want %d; error %v", kept, want, err)
			}
			l.want(t, lostRow(0, 50, ReasonClient), row(50, 60, RangeBatch, ""), row(60, 100, RangeReserved, ""))
		}
		check()
		l.expire(t, LeaseMemory)
		if kept, err := l.ExpireLeases(t.Context()); err != nil || kept != 10 {
			t.Errorf("%d keys expired, want the 10 that were alive; error %v", kept, err)
		}
		if again := l.lend(t, "a", "over", 50); again.Runs[0] != (Run{3, 60, 100}) {
			t.Errorf("a request that is forgotten got %+v", again.Runs)
		}
	})
}

// More leases than one change of the ledger ends.
func TestManyLeasesExpire(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		for i := range ExpireAtOnce + 1 {
			l.lend(t, "a", fmt.Sprint(i), 1)
		}
		l.expire(t, LeaseMemory)
		if kept, err := l.ExpireLeases(t.Context()); err != nil || kept != ExpireAtOnce+1 {
			t.Errorf("%d keys expired, error %v", kept, err)
		}
		l.want(t, lostRow(0, ExpireAtOnce+1, ReasonClient))
		var rows int
		if err := l.db.QueryRowContext(t.Context(), `SELECT count(*) FROM kgs_leases`).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d leases are remembered, error %v", rows, err)
		}
	})
}

// TestExpiryIsBounded has leases of scattered keys expire: one change of the ledger, for
// which everybody waits, ends but a few rows of them.
func TestExpiryIsBounded(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		const leases = 5
		for i := range leases {
			l.lend(t, "a", fmt.Sprint(i), 1)
		}
		l.exec(t, `WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < $1)
			INSERT INTO kgs_ranges (id, length, lo, hi, state, epoch, lease)
			SELECT -n, 3, 10 + 2 * n, 11 + 2 * n, 'batch', 0, 1 + n % $2 FROM seq`, leases*LeaseRanges, leases)
		l.expire(t, 0)
		kept := int64(0)
		err := l.Update(t.Context(), "test", func(ctx context.Context, p *Tx) (err error) {
			kept, err = p.ExpireStep(ctx)
			return err
		})
		if err != nil || kept < ExpireRanges || kept > ExpireRanges+LeaseRanges {
			t.Errorf("one change ends %d ranges of one key each, error %v", kept, err)
		}
		rest, err := l.ExpireLeases(t.Context())
		if err != nil || kept+rest != leases*(LeaseRanges+1) {
			t.Errorf("%d keys expired, then %d, error %v", kept, rest, err)
		}
	})
}

// Nobody beats for a lease; what is no lease's, and nobody's, is swept.
func TestSweepLeavesLeases(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.lend(t, "a", "1", 10)
		if n, err := l.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("swept %d numbers of a lease, error %v", n, err)
		}
		l.exec(t, `UPDATE kgs_ranges SET lease = 0`)
		if n, err := l.Sweep(t.Context()); err != nil || n != 10 {
			t.Errorf("swept %d numbers of nobody, error %v", n, err)
		}
	})
}

// What was given back in a history that was lost may have been handed out in it.
func TestJumpEndsLeases(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		lease, returned := l.lend(t, "a", "1", 10), l.lend(t, "a", "2", 10)
		l.endLease(t, "a", returned.ID, []Run{{3, 10, 20}}, nil)
		l.Remember(Reach{Next: map[int]int64{3: 5000}})
		to := 5000 + Size(3)/SkipPart
		if after := l.lend(t, "a", "3", 30); len(after.Runs) != 1 || after.Runs[0] != (Run{3, to, to + 20}) {
			t.Errorf("after the jump: %+v, want none of before", after.Runs)
		}
		l.refused(t, "a", "1", ErrLeaseExpired)
		if _, err := l.EndLease(t.Context(), "a", lease.ID, []Run{{3, 0, 10}}, nil); !errors.Is(err, ErrLeaseExpired) {
			t.Errorf("returned what was written off: %v", err)
		}
		l.want(t, lostRow(0, to, ReasonRollback), row(to, to+20, RangeBatch, ""))
	})
}

func TestLendAtTheEndOfASpace(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.exec(t, `UPDATE kgs_spaces SET next = size`)
		l.refused(t, "a", "1", ErrExhausted)
		l.exec(t, `UPDATE kgs_spaces SET next = size - 7 WHERE length IN (3, 10)`)
		for i, want := range []Run{{3, Size(3) - 7, Size(3)}, {10, Size(10) - 7, Size(10)}} {
			if lease := l.lend(t, "a", fmt.Sprint("2", i), 10); len(lease.Runs) != 1 || lease.Runs[0] != want {
				t.Errorf("got %+v, want %+v", lease.Runs, want)
			}
		}
		l.refused(t, "a", "1", ErrExhausted)
	})
}
