package audit

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// fixture is a ledger with a Redis pool and links. The ledger is real. The pool and the links are
// slices, because the audit only iterates over them.
type fixture struct {
	kgstest.LedgerUnderTest
	space  *codespace.Space
	pool   []kgs.PoolEntry
	links  []Linked
	noPool bool
	epoch  func() (int64, error) // epoch of the pool; if nil, the pool has the epoch of the ledger
}

// newFixture reserves the numbers [0, 100) and puts at least 10 numbers into every place.
func newFixture(t *testing.T, l kgstest.LedgerUnderTest) *fixture {
	t.Helper()
	space, err := l.Open(t.Context(), ledger.Config{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &fixture{LedgerUnderTest: l, space: space}
	epoch, _, err := l.OpenEpoch(t.Context(), 0, "run")
	if err != nil {
		t.Fatal(err)
	}
	if epoch != 1 {
		t.Fatalf("the first epoch is %d, want 1", epoch)
	}
	delivered := l.MustReserve(t, "worker", ledger.StateShipping, 40) // reserves [0, 40)
	if _, err := l.Deliver(t.Context(), delivered); err != nil {
		t.Fatal(err)
	}
	s.addPool(0, 10, false)
	s.addPool(10, 20, true)
	s.link(20, 30, kgs.SourcePool)
	if err := l.Abandon(t.Context(), []codespace.Range{{Length: 3, Lo: 30, Hi: 40}}, kgs.ReasonCrash); err != nil {
		t.Fatal(err)
	}
	l.MustReserve(t, "worker", ledger.StateShipping, 10) // reserves [40, 50)
	l.MustReserve(t, "server", ledger.StateReserved, 10) // reserves [50, 60)
	l.MustReserve(t, "server", ledger.StateBatch, 40)    // reserves [60, 100)
	s.link(60, 90, kgs.SourceLedger)
	s.link(20_000, 20_010, "random") // beyond the numbers that a skip-ahead can skip
	return s
}

func (s *fixture) addPool(lo, hi int64, batch bool) {
	for _, code := range s.space.Codes(codespace.Range{Length: 3, Lo: lo, Hi: hi}) {
		s.pool = append(s.pool, kgs.PoolEntry{Code: code, InBatch: batch})
	}
}

func (s *fixture) link(lo, hi int64, source string) {
	for _, code := range s.space.Codes(codespace.Range{Length: 3, Lo: lo, Hi: hi}) {
		s.links = append(s.links, placed(s.space, code, source))
	}
}

// placed returns the row of a code in a link store with the order of space.
func placed(space *codespace.Space, code, source string) Linked {
	rank, ok := space.Rank(code)
	if !ok {
		rank = -1
	}
	return Linked{code, source, rank}
}

func (s *fixture) code(n int64) string { return s.space.Code(3, n) }

func (s *fixture) evidence() Evidence {
	e := Evidence{
		Space: s.space, Order: s.space, Snapshot: s.Snapshot,
		Links: func(context.Context) iter.Seq2[Linked, error] { return noErrors(s.links) },
	}
	if !s.noPool {
		e.Pool = func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] { return noErrors(s.pool) }
		e.Epochs = onlyList(s.poolEpoch)
	}
	return e
}

func (s *fixture) audit(t *testing.T) (Accounts, error) {
	t.Helper()
	a, err := Run(t.Context(), s.evidence())
	if err == nil {
		wantSums(t, a)
	}
	return a, err
}

// wantSums checks that the accounts of each epoch add up, and that the totals are the sums over all epochs.
func wantSums(t *testing.T, a Accounts) {
	t.Helper()
	sum := Accounts{Abandoned: map[string]int64{}}
	for _, e := range a.Epochs {
		sum.Reserved += e.Reserved
		sum.InPool += total(e.InPool)
		sum.InBatches += total(e.InBatches)
		sum.Shipping += e.Shipping
		sum.OnTheMove += e.OnTheMove
		sum.Linked += total(e.Linked)
		for reason, n := range e.Abandoned {
			sum.Abandoned[reason] += n
		}
		found := total(e.InPool) + total(e.InBatches) + e.Shipping + e.OnTheMove + total(e.Linked) + total(e.Abandoned)
		if found+e.Missing != e.Reserved {
			t.Errorf("in epoch %d, the places have %d numbers, want %d: %+v", e.Epoch, found+e.Missing, e.Reserved, e)
		}
	}
	a.Links, a.Epochs, a.Faults, a.FaultCounts = nil, nil, nil, nil
	if diff := cmp.Diff(sum, a); diff != "" {
		t.Errorf("the totals are not the sums over epochs (-sum +total):\n%s", diff)
	}
}

func (s *fixture) poolEpoch(ctx context.Context) (int64, error) {
	if s.epoch != nil {
		return s.epoch()
	}
	epoch, err := s.Epoch(ctx)
	return epoch.Number, err
}

func noErrors[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func TestAuditCountsNumbersInEachPlace(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := newFixture(t, l)
		got, err := s.audit(t)
		if err != nil {
			t.Fatal(err)
		}
		want := Accounts{
			Reserved: 100, InPool: 20, InBatches: 20, Shipping: 10, Linked: 40,
			Abandoned: map[string]int64{kgs.ReasonCrash: 10},
			Links:     map[string]int64{kgs.SourcePool: 10, kgs.SourceLedger: 30, "random": 10},
			Epochs: []EpochAccounts{{
				Epoch: 1, Reserved: 100, Shipping: 10,
				InPool:    map[string]int64{RecordOfPool: 10, RecordOfLedger: 10},
				InBatches: map[string]int64{RecordOfPool: 10, RecordOfLedger: 10},
				Linked:    map[string]int64{kgs.SourcePool: 10, kgs.SourceLedger: 30},
				Abandoned: map[string]int64{kgs.ReasonCrash: 10},
			}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("accounts (-want +got):\n%s", diff)
		}
	})
}

// Each injected error must give exactly one fault, of the right kind.
func TestAuditReportsOneFaultForEachInjectedError(t *testing.T) {
	tests := map[string]struct {
		plant func(t *testing.T, s *fixture)
		want  FaultKind
		n     int64
	}{
		"a key that the pool lost": {
			func(_ *testing.T, s *fixture) { s.pool = s.pool[1:] }, FaultMissing, 0},
		"a linked key whose link was lost": {
			func(_ *testing.T, s *fixture) { s.links = s.links[1:] }, FaultMissing, 20},
		"a key that is in the pool twice": {
			func(_ *testing.T, s *fixture) { s.addPool(3, 4, false) }, FaultDuplicate, 3},
		"a key that is in two batches": {
			func(_ *testing.T, s *fixture) { s.addPool(13, 14, true) }, FaultDuplicate, 13},
		"a key of the ledger that is in the pool too": {
			func(_ *testing.T, s *fixture) { s.addPool(55, 56, false) }, FaultDuplicate, 55},
		"a key that is linked and still in the pool": {
			func(_ *testing.T, s *fixture) { s.link(7, 8, kgs.SourcePool) }, FaultReused, 7},
		"a key that is linked and still reserved": {
			func(_ *testing.T, s *fixture) { s.link(52, 53, kgs.SourceLedger) }, FaultReused, 52},
		"a link with a code that was never reserved": {
			func(_ *testing.T, s *fixture) { s.link(100, 101, kgs.SourcePool) }, FaultForeign, 100},
		"a key that is in the pool three times": {
			func(_ *testing.T, s *fixture) { s.addPool(3, 4, false); s.addPool(3, 4, false) }, FaultDuplicate, 3},
		"a key that is in the pool and in a batch": {
			func(_ *testing.T, s *fixture) { s.addPool(3, 4, true) }, FaultDuplicate, 3},
		"a key of the ledger that is in a batch of the pool too": {
			func(_ *testing.T, s *fixture) { s.addPool(55, 56, true) }, FaultDuplicate, 55},
		"a key of a batch of the ledger that is in the pool too": {
			func(_ *testing.T, s *fixture) { s.addPool(95, 96, false) }, FaultDuplicate, 95},
		"a key that the ledger has two rows for": {
			func(t *testing.T, s *fixture) {
				s.Exec(t, `INSERT INTO kgs_ranges (id, length, lo, hi, state, epoch) VALUES (99, 3, 59, 60, 'reserved', 1)`)
			}, FaultDuplicate, 59},
		"a key in the pool that was never reserved": {
			func(_ *testing.T, s *fixture) { s.addPool(100, 101, false) }, FaultForeign, 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, kgstest.NewSQLiteLedger(t))
			tt.plant(t, s)
			got, err := s.audit(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Fault{{tt.want, s.code(tt.n)}}, got.Faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuditReportsNoFaultForRecordedLosses(t *testing.T) {
	t.Parallel()
	const margin = 62 * 62 * 62 / 100 // a skip-ahead skips at least this many numbers, and less than twice as many
	tests := map[string]struct {
		change func(t *testing.T, s *fixture)
		want   map[string]int64 // number of abandoned numbers by reason
	}{
		"an alias that took a key's code": {
			func(_ *testing.T, s *fixture) { s.links[0].Source = "alias" },
			map[string]int64{kgs.ReasonCrash: 10, kgs.ReasonConflict: 1}},
		"an abandoned key that has a link": {
			func(_ *testing.T, s *fixture) { s.link(30, 31, kgs.SourcePool) },
			map[string]int64{kgs.ReasonCrash: 9}},
		"a pool that was lost with its epoch": {
			func(t *testing.T, s *fixture) {
				s.pool = nil
				if _, _, err := s.OpenEpoch(t.Context(), 1, "another run"); err != nil {
					t.Fatal(err)
				}
			},
			map[string]int64{kgs.ReasonCrash: 10, kgs.ReasonEpoch: 30}}, // 30 includes the range that was shipping
		"a ledger that is older than its pool": {
			func(t *testing.T, s *fixture) {
				s.pool = nil
				s.Remember(ledger.HighWaterMark{ID: 1000, Next: map[int]int64{3: 500}})
				if _, _, err := s.OpenEpoch(t.Context(), 1, "run"); err != nil {
					t.Fatal(err)
				}
			}, // the rollback abandons 30 unlinked numbers in rows, 400 up to the high-water mark, and at least the margin
			map[string]int64{kgs.ReasonCrash: 10, kgs.ReasonEpoch: 20, kgs.ReasonRollback: 30 + 400 + margin}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, kgstest.NewSQLiteLedger(t))
			tt.change(t, s)
			got, err := s.audit(t)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Faults) > 0 {
				t.Errorf("the audit found the faults %v, want none", got.Faults)
			}
			// A skip-ahead also skips a random part of the margin.
			if n := tt.want[kgs.ReasonRollback]; n > 0 && got.Abandoned[kgs.ReasonRollback] >= n && got.Abandoned[kgs.ReasonRollback] < n+margin {
				got.Abandoned[kgs.ReasonRollback] = n
			}
			if diff := cmp.Diff(tt.want, got.Abandoned); diff != "" {
				t.Errorf("abandoned numbers by reason (-want +got):\n%s", diff)
			}
		})
	}
}

// If a key moves to its next place during a pass, the pass may find the key in no place or in two places. If the next
// pass does not find this fault, the audit must not report it.
func TestAuditReportsNoFaultForMovingKeys(t *testing.T) {
	t.Parallel()
	s := newFixture(t, kgstest.NewSQLiteLedger(t))
	moved := false
	e := s.evidence()
	e.Pool = func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
		if moved {
			return noErrors(s.pool)
		}
		return noErrors(s.pool[1:]) // the key returns to the pool just after the audit has read the pool
	}
	e.Links = func(context.Context) iter.Seq2[Linked, error] { moved = true; return noErrors(s.links) }
	got, err := Run(t.Context(), e)
	if err != nil || len(got.Faults) > 0 || got.InPool != 20 {
		t.Errorf("the audit gives the accounts %+v, error %v; want 20 keys in the pool and no fault", got, err)
	}
}

// In each pass, a different key is between two places. These keys are not faults. OnTheMove
// counts the keys of the last pass.
func TestAuditCountsKeysThatMoveDuringLastPass(t *testing.T) {
	t.Parallel()
	s := newFixture(t, kgstest.NewSQLiteLedger(t))
	passes := 0
	e := s.evidence()
	e.Pool = func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
		passes++
		return noErrors(slices.Delete(slices.Clone(s.pool), passes, passes+1))
	}
	got, err := Run(t.Context(), e)
	if err != nil || len(got.Faults) > 0 || got.InPool != 19 || got.OnTheMove != 1 {
		t.Errorf("the audit gives the accounts %+v, error %v; want 19 keys in the pool, 1 on the move and no fault",
			got, err)
	}
	wantSums(t, got)
}

// In a wrong pool or without a pool, the audit would find no key of the ledger's pool.
func TestAuditFailsIfPoolDoesNotBelongToLedger(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fixture){
		"no pool":                    func(s *fixture) { s.noPool = true },
		"a pool of another epoch":    func(s *fixture) { s.epoch = func() (int64, error) { return 7, nil } },
		"a pool that lost its state": func(s *fixture) { s.epoch = func() (int64, error) { return 0, kgs.ErrNoEpoch } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, kgstest.NewSQLiteLedger(t))
			change(s)
			if a, err := s.audit(t); !errors.Is(err, ErrPoolUnknown) {
				t.Errorf("accounts %+v, error %v; want ErrPoolUnknown", a, err)
			}
		})
	}
}

// If a search for the code of a row misses the row, the row does not count as a link, even if the
// code has a number.
func TestAuditFindsLinksStoredUnderWrongRank(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := newFixture(t, l)
		before, err := s.audit(t)
		if err != nil {
			t.Fatal(err)
		}
		s.links = append(s.links,
			Linked{s.code(20), kgs.SourcePool, 77}, Linked{s.code(21), kgs.SourcePool, -1}, Linked{"by-name", "alias", 3})
		got, err := s.audit(t)
		if err != nil {
			t.Fatal(err)
		}
		want := map[FaultKind]int64{FaultMisplaced: 3}
		if diff := cmp.Diff(want, got.FaultCounts); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before.Links, got.Links); diff != "" {
			t.Errorf("links by source (-before +after):\n%s", diff)
		}
	})
}

// onlyList returns a function for Evidence.Epochs of a pool with one list. The function epoch returns the epoch of this
// list.
func onlyList(epoch func(context.Context) (int64, error)) func(context.Context, map[int]int64) (map[int]int64, error) {
	return func(ctx context.Context, _ map[int]int64) (map[int]int64, error) {
		number, err := epoch(ctx)
		return map[int]int64{0: number}, err
	}
}
