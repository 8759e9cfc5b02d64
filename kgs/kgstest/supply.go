// Package kgstest contains the conformance suites for the contracts of package kgs, and
// fixtures for the tests of its subpackages. An implementation runs [TestSupply] or
// [TestGenerator] in one of its own tests.
//
// Invariant: every implementation of a contract passes the whole suite of that contract.
package kgstest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// SupplyUnderTest is a supply. In some supplies, a worker must make the returned keys available again.
// Refill then does the work of this worker. In other supplies, Refill is nil.
type SupplyUnderTest struct {
	kgs.Supply
	Refill func(t *testing.T)
}

// TestSupply is the conformance suite for [kgs.Supply]. newSupply returns a supply with exactly the given
// number of keys. After these keys are taken, Take fails with ErrEmpty or ErrExhausted. The supply must be
// able to return 20 keys in one Take.
func TestSupply(t *testing.T, newSupply func(t *testing.T, keys int) SupplyUnderTest) {
	t.Helper()
	tests := map[string]func(*testing.T, func(*testing.T, int) SupplyUnderTest){
		"concurrent takes share no key":       testConcurrentTakesShareNoKey,
		"unused keys are returned":            testUnusedKeysAreReturned,
		"used and lost keys are not returned": testUsedAndLostKeysAreNotReturned,
		"settle is idempotent":                testSettleIsIdempotent,
		"a cancelled take loses no key":       testCancelledTakeLosesNoKey,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newSupply)
		})
	}
}

func testConcurrentTakesShareNoKey(t *testing.T, newSupply func(*testing.T, int) SupplyUnderTest) {
	const takers, keys, each = 32, 1600, 10
	s := newSupply(t, keys)
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range takers {
		wg.Go(func() {
			codes := Drain(t, s, each)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, codes...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	if unique := len(slices.Compact(slices.Clone(all))); len(all) != keys || unique != keys {
		t.Errorf("%d goroutines took %d keys with %d different codes, want %d", takers, len(all), unique, keys)
	}
}

func testUnusedKeysAreReturned(t *testing.T, newSupply func(*testing.T, int) SupplyUnderTest) {
	s := newSupply(t, 20)
	b := Take(t, s, 20)
	unused := []string{b.Codes[3], b.Codes[4], b.Codes[5], b.Codes[11], b.Codes[19]}
	Settle(t, s, b, unused, nil)
	WantLeft(t, s, unused)
}

func testUsedAndLostKeysAreNotReturned(t *testing.T, newSupply func(*testing.T, int) SupplyUnderTest) {
	s := newSupply(t, 20)
	b := Take(t, s, 20)
	Settle(t, s, b, b.Codes[:1], b.Codes[1:4])
	WantLeft(t, s, b.Codes[:1])
}

func testSettleIsIdempotent(t *testing.T, newSupply func(*testing.T, int) SupplyUnderTest) {
	s := newSupply(t, 20)
	b := Take(t, s, 20)
	for range 3 {
		Settle(t, s, b, b.Codes[:5], b.Codes[5:6])
	}
	WantLeft(t, s, b.Codes[:5])
	Settle(t, s, b, b.Codes[:5], nil) // repeats the call after the keys were taken again
	WantLeft(t, s, nil)
}

func testCancelledTakeLosesNoKey(t *testing.T, newSupply func(*testing.T, int) SupplyUnderTest) {
	s := newSupply(t, 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := s.Take(ctx, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled take gave %v, error %v", b, err)
	}
	if got := Drain(t, s, 5); len(got) != 20 {
		t.Errorf("after a cancelled take, %d keys are left, want 20", len(got))
	}
}

// Take takes exactly n keys in one batch.
func Take(t *testing.T, s kgs.Supply, n int) *kgs.Batch {
	t.Helper()
	b, err := s.Take(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Codes) != n {
		t.Fatalf("took %d keys, want %d", len(b.Codes), n)
	}
	return b
}

// Drain takes up to n keys at a time until the supply has none.
func Drain(t *testing.T, s kgs.Supply, n int) (codes []string) {
	t.Helper()
	for {
		b, err := s.Take(t.Context(), n)
		if errors.Is(err, kgs.ErrEmpty) || errors.Is(err, kgs.ErrExhausted) {
			return codes
		}
		if err != nil {
			t.Errorf("take: %v", err)
			return codes
		}
		if len(b.Codes) < 1 || len(b.Codes) > n {
			t.Errorf("took %d keys, want 1 to %d", len(b.Codes), n)
		}
		codes = append(codes, b.Codes...)
	}
}

// Settle settles b.
func Settle(t *testing.T, s kgs.Supply, b *kgs.Batch, unused, lost []string) {
	t.Helper()
	if err := s.Settle(t.Context(), b, unused, lost); err != nil {
		t.Fatal(err)
	}
}

// WantLeft takes all keys that are left in the supply and compares them with want.
func WantLeft(t *testing.T, s SupplyUnderTest, want []string) {
	t.Helper()
	if s.Refill != nil {
		s.Refill(t)
	}
	got := Drain(t, s, 100)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got); diff != "" {
		t.Errorf("keys left in the supply (-want +got):\n%s", diff)
	}
}

// Codes returns the plain 6-character codes of the numbers [lo, hi).
func Codes(lo, hi int64) []string {
	return codespace.Plain().Codes(codespace.Range{Length: 6, Lo: lo, Hi: hi})
}
