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

func TestReserveReturnsDisjointRanges(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		const each, n = 10, 7
		lists := kgstest.InParallel(t, func(i int) (got []ledger.Reservation, err error) {
			for range each {
				r, err := l.Reserve(t.Context(), fmt.Sprint("holder ", i), ledger.StateBatch, 3, n)
				if err != nil {
					return got, err
				}
				got = append(got, r)
			}
			return got, nil
		})
		all := slices.Concat(lists...)
		slices.SortFunc(all, func(a, b ledger.Reservation) int { return int(a.ID - b.ID) })
		// In the order of their ids, the ranges follow each other without a gap.
		for i, r := range all {
			if want := (ledger.Reservation{Range: codespace.Range{Length: 3, Lo: int64(i) * n, Hi: int64(i+1) * n}, ID: int64(i + 1), Epoch: 0}); r != want {
				t.Fatalf("range %d is %+v, want %+v", i, r, want)
			}
		}
	})
}

func TestReserveUsesLongerCodesWhenShortCodesAreUsedUp(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.Exec(t, `UPDATE kgs_spaces SET next = size - 5 WHERE length = 3`)
		l.Exec(t, `UPDATE kgs_spaces SET next = size - 1 WHERE length = 4`)
		l.Exec(t, `UPDATE kgs_spaces SET next = size WHERE length > 4`)
		for _, want := range []codespace.Range{
			{Length: 3, Lo: codespace.Size(3) - 5, Hi: codespace.Size(3) - 2},
			{Length: 3, Lo: codespace.Size(3) - 2, Hi: codespace.Size(3)},
			{Length: 4, Lo: codespace.Size(4) - 1, Hi: codespace.Size(4)},
		} {
			if got := l.MustReserve(t, "a", ledger.StateBatch, 3); got.Range != want {
				t.Errorf("reserved %+v, want %+v", got.Range, want)
			}
		}
		if r, err := l.Reserve(t.Context(), "a", ledger.StateBatch, 3, 3); !errors.Is(err, kgs.ErrExhausted) {
			t.Errorf("reserved %v when no numbers were left, error %v; want ErrExhausted", r, err)
		}
	})
}

func TestReserveAdoptsEachReservedRangeOnce(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "dead", ledger.StateReserved, 100)
		l.MustReserve(t, "alive", ledger.StateReserved, 100)
		// A range belongs to its holder while the holder is alive.
		if r := l.MustReserve(t, "other", ledger.StateBatch, 10); r.Lo != 200 {
			t.Errorf("numbers of a live holder were reserved for another holder: %+v", r)
		}
		l.DeclareDead(t, "dead")
		taken := kgstest.InParallel(t, func(i int) (codespace.Range, error) {
			r, err := l.Reserve(t.Context(), fmt.Sprint("heir ", i), ledger.StateBatch, 3, 10)
			return r.Range, err
		})
		slices.SortFunc(taken, func(a, b codespace.Range) int { return int(a.Lo - b.Lo) })
		for i, r := range taken {
			want := codespace.Range{Length: 3, Lo: int64(i) * 10, Hi: int64(i)*10 + 10}
			if i >= 10 { // the range that was taken over is used up, so new numbers follow
				want.Lo, want.Hi = want.Lo+110, want.Hi+110
			}
			if r != want {
				t.Errorf("take %d got %+v, want %+v", i, r, want)
			}
		}
	})
}

func TestReservePrefersNewNumbersToReservedRangesWithFewNumbers(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "dead", ledger.StateReserved, 9)
		l.DeclareDead(t, "dead")
		reserve := func(n int64, want codespace.Range) {
			t.Helper()
			if r := l.MustReserve(t, "a", ledger.StateBatch, n); r.Range != want {
				t.Errorf("reserved %+v, want %+v", r.Range, want)
			}
		}
		reserve(100, codespace.Range{Length: 3, Lo: 9, Hi: 109})
		reserve(20, codespace.Range{Length: 3, Lo: 0, Hi: 9})
		l.MustReserve(t, "dead", ledger.StateReserved, 5)
		l.DeclareDead(t, "dead")
		l.Exec(t, `UPDATE kgs_spaces SET next = size`)
		reserve(100, codespace.Range{Length: 3, Lo: 109, Hi: 114})
	})
}

func TestReserveDoesNotAdoptRangesOfShorterCodes(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "dead", ledger.StateReserved, 10)
		l.DeclareDead(t, "dead")
		r, err := l.Reserve(t.Context(), "b", ledger.StateReserved, 5, 10)
		if want := (codespace.Range{Length: 5, Lo: 0, Hi: 10}); err != nil || r.Range != want {
			t.Errorf("reserved %+v for codes of 5 characters, error %v; want the first 10 numbers of length 5", r, err)
		}
	})
}

func TestReserveAdoptsWholeShippingRanges(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		r := l.MustReserve(t, "dead", ledger.StateShipping, 100)
		l.DeclareDead(t, "dead")
		if got := l.MustReserve(t, "x", ledger.StateReserved, 10); got.Lo != 100 {
			t.Errorf("a range that may be in the pool was reserved for another use: %+v", got)
		}
		if got := l.MustReserve(t, "b", ledger.StateShipping, 10); got != r {
			t.Errorf("took over %+v, want %+v", got, r)
		}
		// b gets its shipping range again, in case the first answer was lost. If b got a second range,
		// the first range would stay undelivered, and the floor could not rise above it.
		if got := l.MustReserve(t, "b", ledger.StateShipping, 10); got != r {
			t.Errorf("reserved %+v while another range is shipping, want %+v", got, r)
		}
		if got := l.MustReserve(t, "c", ledger.StateShipping, 10); got.Lo != 110 {
			t.Errorf("took over a range a second time: %+v", got)
		}
		if _, _, err := l.OpenEpoch(t.Context(), 0, "pool"); err != nil {
			t.Fatal(err)
		}
		l.DeclareDead(t, "b")
		if got := l.MustReserve(t, "c", ledger.StateShipping, 10); got.Lo != 120 || got.Epoch != 1 {
			t.Errorf("took over a range of an abandoned epoch: %+v", got)
		}
	})
}

func TestRepeatedCutReturnsSameBatch(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		r := l.MustReserve(t, "a", ledger.StateReserved, 100)
		for range 2 { // the second call returns the answer of the first
			batch, rest, err := l.Cut(t.Context(), "a", r, 30)
			if err != nil || batch.Range != (codespace.Range{Length: 3, Lo: 0, Hi: 30}) || rest != (ledger.Reservation{Range: codespace.Range{Length: 3, Lo: 30, Hi: 100}, ID: r.ID, Epoch: 0}) {
				t.Fatalf("Cut = %+v, %+v, error %v, want the batch [0, 30) and the rest [30, 100)", batch, rest, err)
			}
		}
		rest := ledger.Reservation{Range: codespace.Range{Length: 3, Lo: 30, Hi: 100}, ID: r.ID, Epoch: 0}
		whole := rest
		whole.ID += 2 // the first batch has the id r.ID + 1
		for range 2 {
			batch, none, err := l.Cut(t.Context(), "a", rest, 1000)
			if err != nil || batch != whole || none != (ledger.Reservation{}) {
				t.Fatalf("Cut = %+v, %+v, error %v, want the batch [30, 100) and no rest", batch, none, err)
			}
		}
		l.WantRows(t, kgstest.Row(0, 30, ledger.StateBatch, "a"), kgstest.Row(30, 100, ledger.StateBatch, "a"))
	})
}

func TestCutRefusesRangeThatWasTakenOver(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		r := l.MustReserve(t, "frozen", ledger.StateReserved, 100)
		l.DeclareDead(t, "frozen")
		if _, _, err := l.Cut(t.Context(), "other", r, 10); !errors.Is(err, kgs.ErrFenced) {
			t.Errorf("cut of a range of another holder: error %v, want ErrFenced", err)
		}
		l.MustReserve(t, "heir", ledger.StateReserved, 10)
		for range 2 {
			if batch, _, err := l.Cut(t.Context(), "frozen", r, 10); !errors.Is(err, kgs.ErrFenced) {
				t.Errorf("cut %+v from a range that was taken over, error %v, want ErrFenced", batch, err)
			}
		}
		// The rest of the range is free for any holder, although its old holder works again.
		l.WantRows(t, kgstest.Row(0, 10, ledger.StateReserved, "heir"), kgstest.Row(10, 100, ledger.StateReserved, ""))
		// The range stays fenced even if the frozen holder gets the same numbers again under another id.
		if err := l.Release(t.Context(), "heir"); err != nil {
			t.Fatal(err)
		}
		l.MustReserve(t, "other", ledger.StateReserved, 90)
		again := l.MustReserve(t, "frozen", ledger.StateBatch, 10)
		if batch, _, err := l.Cut(t.Context(), "frozen", r, 10); !errors.Is(err, kgs.ErrFenced) {
			t.Errorf("the batch %+v was cut a second time as %+v: %v", again, batch, err)
		}
		// No other holder took over this range, so its old holder can still cut it.
		r = l.MustReserve(t, "frozen", ledger.StateReserved, 1000)
		l.DeclareDead(t, "frozen")
		if _, _, err := l.Cut(t.Context(), "frozen", r, 10); err != nil {
			t.Error(err)
		}
	})
}
