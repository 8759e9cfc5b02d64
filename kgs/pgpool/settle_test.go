package pgpool

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

// Whatever the batch job draws, only what is neither used nor there already is counted.
func TestPostgresPoolCountsFreshKeys(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	p := k.process("a", false)
	k.fill(kgstest.Codes(0, 4)...)
	kgstest.Take(t, p, 2)
	k.fill(append(kgstest.Codes(0, 6), kgstest.Codes(0, 6)...)...)
	s, err := p.Status(t.Context())
	if err != nil || s.Keys != 4 || k.Count(`SELECT count(*) FROM available_keys`) != 4 {
		t.Errorf("status %+v, %v; want 4 keys", s, err)
	}
}

// Of two batch jobs that draw the same key at the same moment, one may make it available
// again after it was used.
func TestPostgresPoolDropsUsedKeys(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		p := k.process("a", reserve)
		k.fill(kgstest.Codes(0, 4)...)
		b := kgstest.Take(t, p, 4)
		kgstest.Settle(t, p, b, b.Codes[3:], b.Codes[2:3])
		k.DrawAgain(kgstest.Codes(0, 6)...)
		k.fill(kgstest.Codes(0, 6)...)
		kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, kgstest.Codes(3, 6))
		k.DrawAgain(kgstest.Codes(0, 6)...) // nothing but used keys, or keys that are reserved
		if b, err := p.Take(t.Context(), 1); !errors.Is(err, kgs.ErrEmpty) {
			t.Errorf("Take = %v, %v; want ErrEmpty", b, err)
		}
	})
}

// A process that dies with a batch takes it with it, or what it had reserved comes back.
func TestPostgresPoolAfterACrash(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reserve bool
		back    []string
	}{"delete": {false, nil}, "reserve": {true, kgstest.Codes(0, 10)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeyPool(t)
			k.fill(kgstest.Codes(0, 10)...)
			kgstest.Take(t, k.process("crashed", tt.reserve), 10)
			k.Die("crashed", reserveTerm)
			k.fill()
			kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: k.process("heir", tt.reserve)}, tt.back)
		})
	}
}

func TestPostgresPoolLeavesTheLivingTheirKeys(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	k.fill(kgstest.Codes(0, 30)...)
	kgstest.Take(t, k.process("slow", true), 10)
	kgstest.Take(t, k.process("dead", true), 10)
	kgstest.Take(t, k.process("just dead", true), 10)
	k.Age("slow", reserveTerm)
	k.Die("dead", reserveTerm)
	k.Exec(`DELETE FROM kgs_holders WHERE holder = 'just dead'`)
	k.fill()
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: k.process("heir", true)}, kgstest.Codes(10, 20))
}

// A process that was frozen settles what others have reserved since: it neither frees
// their keys, nor are its own given out again.
func TestPostgresPoolLateSettle(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	k.fill(kgstest.Codes(0, 10)...)
	frozen, heir := k.process("frozen", true), k.process("heir", true)
	late := kgstest.Take(t, frozen, 10)
	k.Die("frozen", reserveTerm)
	k.fill()
	b := kgstest.Take(t, heir, 6)
	free := allBut(late.Codes, b.Codes)
	unused := []string{b.Codes[0], b.Codes[1], free[0]}
	for range 2 {
		kgstest.Settle(t, frozen, late, unused, nil)
	}
	// Of the free ones it has used all but the first, which nobody took from it.
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: k.process("third", true)}, free[:1])
	kgstest.Settle(t, heir, b, b.Codes, nil) // of which the other one has used four
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: heir}, b.Codes[:2])
}

// A taker that fails leaves rows behind that others have skipped.
func TestPostgresPoolFindsWhatWasOverlooked(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		k.fill(kgstest.Codes(0, 30)...)
		p := k.process("a", reserve)
		tx, err := k.DB.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), takeByDelete, 0, 10); err != nil {
			t.Fatal(err)
		}
		if got := kgstest.Take(t, p, 10).Codes; !slices.Equal(got, kgstest.Codes(10, 20)) {
			t.Errorf("took %v beside another taker", got)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, slices.Concat(kgstest.Codes(0, 10), kgstest.Codes(20, 30)))
	})
}

// Keys come in the order that chance drew them in, not in that of an index.
func TestPostgresPoolKeepsTheOrder(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		drawn := kgstest.Codes(0, 1000)
		slices.Reverse(drawn)
		k.fill(drawn...)
		p := k.process("a", reserve)
		b := kgstest.Take(t, p, 1000)
		if diff := cmp.Diff(drawn, b.Codes); diff != "" {
			t.Errorf("keys as drawn (-want +got):\n%s", diff)
		}
		kgstest.Settle(t, p, b, b.Codes, nil)
		if diff := cmp.Diff(drawn, kgstest.Take(t, p, 1000).Codes); diff != "" {
			t.Errorf("keys that were handed back (-want +got):\n%s", diff)
		}
	})
}
