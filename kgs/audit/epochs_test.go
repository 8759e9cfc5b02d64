package audit

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// newLongFixture returns a ledger with four epochs and with numbers from the time before epoch 1. Epoch 2
// has no numbers. Some numbers of epochs 1 and 3, and all numbers from the time before epoch 1, are lost.
// Number 41 of the present epoch is missing, which is a fault.
func newLongFixture(t *testing.T, l kgstest.LedgerUnderTest) *fixture {
	t.Helper()
	space, err := l.Open(t.Context(), ledger.Config{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &fixture{LedgerUnderTest: l, space: space}
	l.MustReserve(t, "worker", ledger.StateShipping, 10) // [0, 10): reserved before the first shared pool, and lost
	s.open(t, 1)
	s.refill(t, 10) // [10, 20): three linked, three abandoned, four lost
	s.link(10, 13, kgs.SourcePool)
	if err := l.Abandon(t.Context(), []codespace.Range{{Length: 3, Lo: 13, Hi: 16}}, kgs.ReasonRollback); err != nil {
		t.Fatal(err)
	}
	s.open(t, 2)
	s.open(t, 3)
	s.refill(t, 20)                                     // [20, 40): all are linked except for the last two
	l.MustReserve(t, "server", ledger.StateReserved, 1) // [40, 41): reserved for a pool in a process
	s.link(20, 38, kgs.SourcePool)
	s.open(t, 4)
	s.refill(t, 9) // [41, 50): reserved in the present epoch
	s.addPool(42, 50, false)
	return s
}

// open begins the epoch with the given number, with an empty pool.
func (s *fixture) open(t *testing.T, number int64) {
	t.Helper()
	s.pool = nil
	epoch, _, err := s.OpenEpoch(t.Context(), number-1, "run")
	if err != nil || epoch != number {
		t.Fatalf("OpenEpoch opened epoch %d, want %d; error %v", epoch, number, err)
	}
}

// refill reserves and delivers n numbers. The test then puts their codes into places.
func (s *fixture) refill(t *testing.T, n int64) {
	t.Helper()
	if _, err := s.Deliver(t.Context(), s.MustReserve(t, "worker", ledger.StateShipping, n)); err != nil {
		t.Fatal(err)
	}
}

func TestAuditCountsNumbersByEpoch(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := newLongFixture(t, l)
		got, err := s.audit(t)
		if err != nil {
			t.Fatal(err)
		}
		none := map[string]int64{}
		want := []EpochAccounts{{
			Epoch: 0, Reserved: 10, InPool: none, InBatches: none, Linked: none,
			Abandoned: map[string]int64{kgs.ReasonEpoch: 10},
		}, {
			Epoch: 1, Reserved: 10, InPool: none, InBatches: none, Linked: map[string]int64{kgs.SourcePool: 3},
			Abandoned: map[string]int64{kgs.ReasonEpoch: 4, kgs.ReasonRollback: 3},
		}, {
			Epoch: 3, Reserved: 21, InPool: map[string]int64{RecordOfLedger: 1}, InBatches: none,
			Linked: map[string]int64{kgs.SourcePool: 18}, Abandoned: map[string]int64{kgs.ReasonEpoch: 2},
		}, {
			Epoch: 4, Reserved: 9, InPool: map[string]int64{RecordOfPool: 8}, InBatches: none,
			Linked: none, Abandoned: none, Missing: 1,
		}}
		if diff := cmp.Diff(want, got.Epochs); diff != "" {
			t.Errorf("epochs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]Fault{{FaultMissing, s.code(41)}}, got.Faults); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}

// A missing number just before the boundary of the present epoch is lost with its epoch. A
// missing number just after the boundary is a fault. The test checks several code lengths.
func TestAuditReportsMissingNumbersOnlyInPresentEpoch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		missing int64
		faults  []int64
	}{
		"the last number of an older epoch":     {19, nil},
		"the first number of the present epoch": {20, []int64{20}},
		"the last number that was reserved":     {29, []int64{29}},
		"the first number, in an older epoch":   {0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []Fault
			b := ledger.Snapshot{Epoch: ledger.Epoch{Number: 2}}
			space, links := codespace.Plain(), []Linked{}
			for length := codespace.MinLength; length <= 4; length++ {
				b.Spaces = append(b.Spaces, ledger.SpaceCounter{Length: length, Size: codespace.Size(length), Next: 30})
				for n := range int64(30) {
					if n != tt.missing {
						links = append(links, placed(space, space.Code(length, n), kgs.SourcePool))
					}
				}
				for _, n := range tt.faults {
					want = append(want, Fault{FaultMissing, space.Code(length, n)})
				}
			}
			for i, next := range []int64{10, 20} {
				for length := codespace.MinLength; length <= 4; length++ {
					b.Boundaries = append(b.Boundaries, ledger.Boundary{Epoch: ledger.Epoch{Number: int64(i) + 1}, Length: length, Next: next})
				}
			}
			got, err := Run(t.Context(), Evidence{
				Space:    space,
				Order:    space,
				Snapshot: func(context.Context) (ledger.Snapshot, error) { return b, nil },
				Epochs:   onlyList(func(context.Context) (int64, error) { return 2, nil }),
				Pool: func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
					return noErrors[kgs.PoolEntry](nil)
				},
				Links: func(context.Context) iter.Seq2[Linked, error] { return noErrors(links) },
			})
			if err != nil {
				t.Fatal(err)
			}
			wantSums(t, got)
			if diff := cmp.Diff(want, got.Faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// If a new epoch begins during the audit, the pool that the audit read is abandoned, and the
// counts of its keys would be wrong.
func TestAuditFailsIfEpochChangesDuringAudit(t *testing.T) {
	t.Parallel()
	s := newFixture(t, kgstest.NewSQLiteLedger(t))
	e := s.evidence()
	e.Pool = func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
		s.open(t, 2) // the epoch changes just before the audit reads the pool
		return noErrors(s.pool)
	}
	if a, err := Run(t.Context(), e); !errors.Is(err, ErrEpochChanged) {
		t.Errorf("accounts %+v, error %v; want ErrEpochChanged", a, err)
	}
	if a, err := s.audit(t); err != nil || len(a.Faults) > 0 {
		t.Errorf("the next audit gives the accounts %+v, error %v; want no fault", a, err)
	}
}

func TestAuditWaitsForNewEpoch(t *testing.T) {
	t.Parallel()
	s := newFixture(t, kgstest.NewSQLiteLedger(t))
	e, calls := s.evidence(), 0
	epochs := e.Epochs
	e.Epochs = func(ctx context.Context, want map[int]int64) (map[int]int64, error) {
		if calls++; calls == 1 {
			return nil, kgs.ErrNoEpoch
		}
		return epochs(ctx, want)
	}
	e.Patience = time.Minute
	if a, err := Run(t.Context(), e); err != nil || len(a.Faults) > 0 || calls != 2 {
		t.Errorf("accounts %+v, error %v, %d reads of the epoch; want 2 reads", a, err, calls)
	}
	e.Epochs = func(context.Context, map[int]int64) (map[int]int64, error) {
		calls++
		return nil, errors.New("connection refused")
	}
	if _, err := Run(t.Context(), e); !errors.Is(err, ErrPoolUnknown) || calls != 3 {
		t.Errorf("without Redis: error %v, %d reads of the epoch; want ErrPoolUnknown without a retry", err, calls)
	}
}

// If the ledger has never had a shared pool, the audit must not read a pool.
func TestAuditReadsNoPoolBeforeFirstEpoch(t *testing.T) {
	t.Parallel()
	s := &fixture{LedgerUnderTest: kgstest.NewSQLiteLedger(t)}
	var err error
	if s.space, err = s.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	s.MustReserve(t, "server", ledger.StateBatch, 10)
	s.epoch = func() (int64, error) { return 0, kgs.ErrNoEpoch }
	if a, err := s.audit(t); err != nil || a.InBatches != 10 {
		t.Errorf("the audit gives the accounts %+v, error %v; want 10 numbers in batches", a, err)
	}
}
