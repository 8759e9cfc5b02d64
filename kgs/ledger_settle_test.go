package kgs

import (
	"fmt"
	"slices"
	"testing"
)

func TestDeliverFloor(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		a := l.reserve(t, "a", RangeShipping, 10)
		l.reserve(t, "x", RangeReserved, 10) // takes an id too
		b := l.reserve(t, "b", RangeShipping, 10)
		for _, step := range []struct {
			deliver Range
			floor   int64
		}{{b, a.ID}, {b, a.ID}, {a, b.ID + 1}, {a, b.ID + 1}} {
			floor, err := l.Deliver(t.Context(), step.deliver)
			if err != nil || floor != step.floor {
				t.Errorf("deliver %d: floor %d, want %d; error %v", step.deliver.ID, floor, step.floor, err)
			}
		}
		// A range that begins to ship after that does so above the floor, also an old one.
		l.crash(t, "x")
		if r := l.reserve(t, "c", RangeShipping, 10); r.Lo != 10 || r.ID <= b.ID {
			t.Errorf("an adopted range ships under a fenced id: %+v", r)
		}
	})
}

func TestSettle(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		r := l.reserve(t, "a", RangeBatch, 100)
		for name, runs := range map[string][]Run{
			"numbers of others":   {{3, 90, 101}},
			"another length":      {{4, 0, 1}},
			"the same ones twice": {{3, 10, 20}, {3, 19, 21}},
			"an empty run":        {{3, 10, 10}},
		} {
			if err := l.Settle(t.Context(), "a", r.ID, runs[:1], runs[1:]); err == nil {
				t.Errorf("settled with %s", name)
			}
		}
		l.want(t, row(0, 100, RangeBatch, "a"))
		for range 2 {
			err := l.Settle(t.Context(), "a", r.ID, []Run{{3, 90, 100}, {3, 50, 51}}, []Run{{3, 10, 12}, {3, 12, 14}})
			if err != nil {
				t.Fatal(err)
			}
			l.want(t, lostRow(10, 14, ReasonLostReply), row(50, 51, RangeReserved, ""), row(90, 100, RangeReserved, ""))
		}
	})
}

func TestSweep(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		r := l.reserve(t, "dead", RangeBatch, 10)
		l.reserve(t, "alive", RangeBatch, 10)
		l.reserve(t, "dead", RangeBatch, 10)
		l.reserve(t, "dead", RangeBatch, 10)
		if n, err := l.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("swept %d numbers of the living, error %v", n, err)
		}
		l.crash(t, "dead")
		for _, want := range []int64{30, 0} {
			if n, err := l.Sweep(t.Context()); err != nil || n != want {
				t.Errorf("swept %d numbers, want %d; error %v", n, want, err)
			}
		}
		// Its holder was only frozen; what was given up stays so.
		if err := l.Settle(t.Context(), "dead", r.ID, []Run{{3, 0, 5}}, nil); err != nil {
			t.Error(err)
		}
		l.want(t, lostRow(0, 10, ReasonCrash), row(10, 20, RangeBatch, "alive"), lostRow(20, 40, ReasonCrash))
		counters, err := l.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := counters.Reserved(); n != 40 {
			t.Errorf("%d numbers are reserved, want 40", n)
		}
		if s := counters.Current(3); s.Length != 3 || s.UsedRatio() != 40/float64(Size(3)) {
			t.Errorf("current space: %+v", s)
		}
	})
}

func TestAbandonJoinsAndRepeats(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		for _, runs := range [][]Run{
			{{3, 10, 20}, {3, 30, 40}}, {{3, 10, 20}, {3, 30, 40}},
			{{3, 20, 30}}, {{3, 10, 20}}, {{3, 30, 40}}, {{3, 20, 30}},
			{{3, 5, 10}}, {{3, 40, 41}}, {{3, 50, 60}},
		} {
			if err := l.Abandon(t.Context(), runs, ReasonCrash); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Abandon(t.Context(), []Run{{3, 41, 50}}, ReasonEpoch); err != nil {
			t.Fatal(err)
		}
		l.want(t, lostRow(5, 41, ReasonCrash), lostRow(41, 50, ReasonEpoch), lostRow(50, 60, ReasonCrash))
	})
}

func TestRelease(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.reserve(t, "a", RangeReserved, 10)
		l.reserve(t, "a", RangeShipping, 10)
		l.reserve(t, "b", RangeReserved, 10)
		if err := l.Release(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		l.want(t, row(0, 10, RangeReserved, ""), row(10, 20, RangeShipping, ""), row(20, 30, RangeReserved, "b"))
	})
}

func TestRenewKeepsWhatIsHeld(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.reserve(t, "a", RangeBatch, 10)
		l.crash(t, "a")
		if err := l.Renew(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("swept %d numbers of a holder that was seen again, error %v", n, err)
		}
	})
}

func TestOpenEpochOnce(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.reserve(t, "a", RangeShipping, 10)
		l.reserve(t, "a", RangeBatch, 10)
		numbers := inParallel(t, func(i int) (int64, error) {
			number, _, err := l.OpenEpoch(t.Context(), 0, fmt.Sprint("pool ", i))
			return number, err
		})
		if n := slices.Compact(numbers); len(n) != 1 || n[0] != 1 {
			t.Errorf("16 workers opened the epochs %v, want 1", n)
		}
		got, err := l.Epoch(t.Context())
		if err != nil || got.Number != 1 || got.Pool == "" {
			t.Errorf("the epoch is %+v, error %v", got, err)
		}
		all, err := l.Books(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all.Boundaries) != 8 || all.Boundaries[0] != (Boundary{got, 3, 20}) || all.Boundaries[1] != (Boundary{got, 4, 0}) {
			t.Errorf("boundaries: %+v", all.Boundaries)
		}
		l.want(t, row(10, 20, RangeBatch, "a"))
	})
}
