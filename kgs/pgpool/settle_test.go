package pgpool

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

// If a worker draws a code that is used or already available, Status must not count the code as a
// further key.
func TestPostgresPoolDoesNotCountUsedOrDuplicateKeys(t *testing.T) {
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

// Two workers may draw the same key at the same moment. The second worker may then make the key
// available again after a server has used the key. Take must drop such a key.
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
		k.DrawAgain(kgstest.Codes(0, 6)...) // all of these keys are used or reserved
		if b, err := p.Take(t.Context(), 1); !errors.Is(err, kgs.ErrEmpty) {
			t.Errorf("Take = %v, %v; want ErrEmpty", b, err)
		}
	})
}

// If Config.Reserve is set, the keys in the batch of a crashed process become available again.
// Otherwise they are lost.
func TestPostgresPoolFreesReservedKeysOfCrashedProcess(t *testing.T) {
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
			k.DeclareDead("crashed", reserveTerm)
			k.fill()
			kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: k.process("heir", tt.reserve)}, tt.back)
		})
	}
}

func TestPostgresPoolKeepsReservationsOfLiveHolders(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	k.fill(kgstest.Codes(0, 30)...)
	kgstest.Take(t, k.process("slow", true), 10)
	kgstest.Take(t, k.process("dead", true), 10)
	kgstest.Take(t, k.process("just dead", true), 10)
	k.AgeReservedKeys("slow", reserveTerm)
	k.DeclareDead("dead", reserveTerm)
	k.Exec(`DELETE FROM kgs_holders WHERE holder = 'just dead'`)
	k.fill()
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: k.process("heir", true)}, kgstest.Codes(10, 20))
}

// A process freezes, and another process reserves some of its keys. Then the frozen process
// continues and settles its batch. Settle must not free the keys of the other process. A key that
// the frozen process has used must never be handed out again.
func TestLateSettleInPostgresPoolDoesNotFreeKeysOfOtherHolder(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	k.fill(kgstest.Codes(0, 10)...)
	frozen, heir := k.process("frozen", true), k.process("heir", true)
	late := kgstest.Take(t, frozen, 10)
	k.DeclareDead("frozen", reserveTerm)
	k.fill()
	b := kgstest.Take(t, heir, 6)
	free := allBut(late.Codes, b.Codes)
	unused := []string{b.Codes[0], b.Codes[1], free[0]}
	for range 2 {
		kgstest.Settle(t, frozen, late, unused, nil)
	}
	// Of the keys that the heir did not take, the frozen process has used all except the first.
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: k.process("third", true)}, free[:1])
	kgstest.Settle(t, heir, b, b.Codes, nil) // the frozen process has used four of these keys, which must not come back
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: heir}, b.Codes[:2])
}

// A Take skips the rows that another Take has locked. If that other Take fails, a later Take must
// find these rows.
func TestPostgresPoolTakesKeysThatEarlierTakeSkipped(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		k.fill(kgstest.Codes(0, 30)...)
		p := k.process("a", reserve)
		tx, err := k.DB.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), takeByDelete, 0, 10, 0); err != nil {
			t.Fatal(err)
		}
		if got := kgstest.Take(t, p, 10).Codes; !slices.Equal(got, kgstest.Codes(10, 20)) {
			t.Errorf("Take returned %v while another transaction held locks, want codes 10 to 19", got)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, slices.Concat(kgstest.Codes(0, 10), kgstest.Codes(20, 30)))
	})
}

// Take must return keys in the order in which they were drawn.
func TestPostgresPoolTakesKeysInOrderInWhichTheyWereDrawn(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		drawn := kgstest.Codes(0, 1000)
		slices.Reverse(drawn)
		k.fill(drawn...)
		p := k.process("a", reserve)
		b := kgstest.Take(t, p, 1000)
		if diff := cmp.Diff(drawn, b.Codes); diff != "" {
			t.Errorf("keys in the order of the draws (-want +got):\n%s", diff)
		}
		kgstest.Settle(t, p, b, b.Codes, nil)
		if diff := cmp.Diff(drawn, kgstest.Take(t, p, 1000).Codes); diff != "" {
			t.Errorf("keys that were returned to the pool (-want +got):\n%s", diff)
		}
	})
}
