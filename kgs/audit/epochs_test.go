package audit

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// newLongScene is a ledger that has seen four epochs, one of them without a number, and
// what is left of them. It has lost numbers in each, and one number, 41, that it must
// not have lost.
func newLongScene(t *testing.T, l kgstest.LedgerUnderTest) *scene {
	t.Helper()
	space, err := l.Open(t.Context(), ledger.Config{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{LedgerUnderTest: l, space: space}
	l.MustReserve(t, "worker", ledger.StateShipping, 10) // [0, 10), before there was a pool; lost
	s.open(t, 1)
	s.ship(t, 10) // [10, 20): a third linked, a third given up, the others lost
	s.link(10, 13, kgs.SourcePool)
	if err := l.Abandon(t.Context(), []codespace.Range{{Length: 3, Lo: 13, Hi: 16}}, kgs.ReasonRollback); err != nil {
		t.Fatal(err)
	}
	s.open(t, 2)
	s.open(t, 3)
	s.ship(t, 20)                                       // [20, 40): linked all but two, in their order
	l.MustReserve(t, "server", ledger.StateReserved, 1) // [40, 41), for a process
	s.link(20, 38, kgs.SourcePool)
	s.open(t, 4)
	s.ship(t, 9) // [41, 50): the present epoch
	s.addPool(42, 50, false)
	return s
}

// open begins epoch number, with a pool that is empty.
func (s *scene) open(t *testing.T, number int64) {
	t.Helper()
	s.pool = nil
	epoch, _, err := s.OpenEpoch(t.Context(), number-1, "run")
	if err != nil || epoch != number {
		t.Fatalf("epoch %d, want %d; error %v", epoch, number, err)
	}
}

// ship reserves n numbers and delivers them, to be put where the test wants them.
func (s *scene) ship(t *testing.T, n int64) {
	t.Helper()
	if _, err := s.Deliver(t.Context(), s.MustReserve(t, "worker", ledger.StateShipping, n)); err != nil {
		t.Fatal(err)
	}
}

func TestAuditByEpoch(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := newLongScene(t, l)
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

// The very numbers at a boundary: the last one before it may be missing, the first one
// after it may not, and so for every length.
func TestAuditAtTheBoundary(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		missing int64
		faults  []int64
	}{
		"the last number of an older epoch":    {19, nil},
		"the first number of the present one":  {20, []int64{20}},
		"the last number that was reserved":    {29, []int64{29}},
		"the first number ever, of an old one": {0, nil},
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
						links = append(links, Linked{space.Code(length, n), kgs.SourcePool})
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
				Snapshot: func(context.Context) (ledger.Snapshot, error) { return b, nil },
				Epoch:    func(context.Context) (int64, error) { return 2, nil },
				Pool:     func(context.Context) iter.Seq2[kgs.PoolEntry, error] { return noErrors[kgs.PoolEntry](nil) },
				Links:    func(context.Context) iter.Seq2[Linked, error] { return noErrors(links) },
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

// What was read of a pool that is written off before the end would look lost, or found.
func TestAuditNoticesANewEpoch(t *testing.T) {
	t.Parallel()
	s := newScene(t, kgstest.NewSQLiteLedger(t))
	e := s.evidence()
	e.Pool = func(context.Context) iter.Seq2[kgs.PoolEntry, error] {
		s.open(t, 2) // just before, and the pool with it
		return noErrors(s.pool)
	}
	if a, err := Run(t.Context(), e); !errors.Is(err, ErrEpochChanged) {
		t.Errorf("accounts %+v, error %v; want ErrEpochChanged", a, err)
	}
	if a, err := s.audit(t); err != nil || len(a.Faults) > 0 {
		t.Errorf("the next audit: %+v, error %v", a, err)
	}
}

// Where there never was a shared pool, none is asked for anything.
func TestAuditWithoutAnEpochNeedsNoPool(t *testing.T) {
	t.Parallel()
	s := &scene{LedgerUnderTest: kgstest.NewSQLiteLedger(t)}
	var err error
	if s.space, err = s.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	s.MustReserve(t, "server", ledger.StateBatch, 10)
	s.epoch = func() (int64, error) { return 0, kgs.ErrNoEpoch }
	if a, err := s.audit(t); err != nil || a.InBatches != 10 {
		t.Errorf("accounts %+v, error %v", a, err)
	}
}
