package kgs

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestReserveIsDisjoint(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		const each, n = 10, 7
		lists := inParallel(t, func(i int) (got []Range, err error) {
			for range each {
				r, err := l.Reserve(t.Context(), fmt.Sprint("holder ", i), RangeBatch, 3, n)
				if err != nil {
					return got, err
				}
				got = append(got, r)
			}
			return got, nil
		})
		all := slices.Concat(lists...)
		slices.SortFunc(all, func(a, b Range) int { return int(a.ID - b.ID) })
		// In the order of their ids the ranges are the counter's walk without a gap.
		for i, r := range all {
			if want := (Range{Run{3, int64(i) * n, int64(i+1) * n}, int64(i + 1), 0}); r != want {
				t.Fatalf("range %d is %+v, want %+v", i, r, want)
			}
		}
	})
}

func TestReserveGoesOnInTheNextLength(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.exec(t, `UPDATE kgs_spaces SET next = size - 5 WHERE length = 3`)
		l.exec(t, `UPDATE kgs_spaces SET next = size - 1 WHERE length = 4`)
		l.exec(t, `UPDATE kgs_spaces SET next = size WHERE length > 4`)
		for _, want := range []Run{
			{3, Size(3) - 5, Size(3) - 2},
			{3, Size(3) - 2, Size(3)},
			{4, Size(4) - 1, Size(4)},
		} {
			if got := l.reserve(t, "a", RangeBatch, 3); got.Run != want {
				t.Errorf("reserved %+v, want %+v", got.Run, want)
			}
		}
		if r, err := l.Reserve(t.Context(), "a", RangeBatch, 3, 3); !errors.Is(err, ErrExhausted) {
			t.Errorf("reserved %v when nothing was left, error %v", r, err)
		}
	})
}

func TestReservedRangesAreAdoptedOnce(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.reserve(t, "dead", RangeReserved, 100)
		l.reserve(t, "alive", RangeReserved, 100)
		// As long as its holder is seen, a range is nobody else's.
		if r := l.reserve(t, "other", RangeBatch, 10); r.Lo != 200 {
			t.Errorf("numbers of a living holder were given away: %+v", r)
		}
		l.crash(t, "dead")
		taken := inParallel(t, func(i int) (Run, error) {
			r, err := l.Reserve(t.Context(), fmt.Sprint("heir ", i), RangeBatch, 3, 10)
			return r.Run, err
		})
		slices.SortFunc(taken, func(a, b Run) int { return int(a.Lo - b.Lo) })
		for i, r := range taken {
			want := Run{3, int64(i) * 10, int64(i)*10 + 10}
			if i >= 10 { // all was adopted: the counter goes on
				want.Lo, want.Hi = want.Lo+110, want.Hi+110
			}
			if r != want {
				t.Errorf("take %d got %+v, want %+v", i, r, want)
			}
		}
	})
}

func TestAdoptionKeepsToTheLength(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		l.reserve(t, "dead", RangeReserved, 10)
		l.crash(t, "dead")
		r, err := l.Reserve(t.Context(), "b", RangeReserved, 5, 10)
		if want := (Run{5, 0, 10}); err != nil || r.Run != want {
			t.Errorf("reserved %+v for codes of 5 characters, error %v", r, err)
		}
	})
}

func TestShippingRangeIsAdoptedWhole(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		r := l.reserve(t, "dead", RangeShipping, 100)
		l.crash(t, "dead")
		if got := l.reserve(t, "x", RangeReserved, 10); got.Lo != 100 {
			t.Errorf("a range that may be in the pool was reserved for something else: %+v", got)
		}
		if got := l.reserve(t, "b", RangeShipping, 10); got != r {
			t.Errorf("adopted %+v, want %+v", got, r)
		}
		// Had b never read the answer, this would be the range that it is told of, and no
		// other one would be left in the way of the floor.
		if got := l.reserve(t, "b", RangeShipping, 10); got != r {
			t.Errorf("reserved %+v beside a range under way, want %+v", got, r)
		}
		if got := l.reserve(t, "c", RangeShipping, 10); got.Lo != 110 {
			t.Errorf("adopted a second time: %+v", got)
		}
		if _, _, err := l.OpenEpoch(t.Context(), 0, "pool"); err != nil {
			t.Fatal(err)
		}
		l.crash(t, "b")
		if got := l.reserve(t, "c", RangeShipping, 10); got.Lo != 120 || got.Epoch != 1 {
			t.Errorf("a range that was written off was adopted: %+v", got)
		}
	})
}

func TestCut(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		r := l.reserve(t, "a", RangeReserved, 100)
		for range 2 { // the second answer is that of the first
			batch, rest, err := l.Cut(t.Context(), "a", r, 30)
			if err != nil || batch.Run != (Run{3, 0, 30}) || rest != (Range{Run{3, 30, 100}, r.ID, 0}) {
				t.Fatalf("cut %+v, rest %+v, error %v", batch, rest, err)
			}
		}
		rest := Range{Run{3, 30, 100}, r.ID, 0}
		for range 2 {
			batch, none, err := l.Cut(t.Context(), "a", rest, 1000)
			if err != nil || batch != rest || none != (Range{}) {
				t.Fatalf("cut %+v, rest %+v, error %v", batch, none, err)
			}
		}
		l.want(t, row(0, 30, RangeBatch, "a"), row(30, 100, RangeBatch, "a"))
	})
}

func TestCutIsFenced(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		r := l.reserve(t, "frozen", RangeReserved, 100)
		l.crash(t, "frozen")
		if _, _, err := l.Cut(t.Context(), "other", r, 10); !errors.Is(err, ErrFenced) {
			t.Errorf("cut a range of somebody else: %v", err)
		}
		l.reserve(t, "heir", RangeReserved, 10)
		for range 2 {
			if batch, _, err := l.Cut(t.Context(), "frozen", r, 10); !errors.Is(err, ErrFenced) {
				t.Errorf("cut %+v, which was taken over: %v", batch, err)
			}
		}
		// What was left of it is for anyone, although its old holder is back.
		l.want(t, row(0, 10, RangeReserved, "heir"), row(10, 100, RangeReserved, ""))
		// Not even when it comes to have the same numbers again, under another id.
		if err := l.Release(t.Context(), "heir"); err != nil {
			t.Fatal(err)
		}
		l.reserve(t, "other", RangeReserved, 90)
		again := l.reserve(t, "frozen", RangeBatch, 10)
		if batch, _, err := l.Cut(t.Context(), "frozen", r, 10); !errors.Is(err, ErrFenced) {
			t.Errorf("the batch %+v was cut a second time as %+v: %v", again, batch, err)
		}
		// Nobody took this one over: it goes on as if nothing had been.
		r = l.reserve(t, "frozen", RangeReserved, 1000)
		l.crash(t, "frozen")
		if _, _, err := l.Cut(t.Context(), "frozen", r, 10); err != nil {
			t.Error(err)
		}
	})
}
