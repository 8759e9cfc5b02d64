package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestConcurrentOpenCallsCreateOneLedgerSecret(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		prints := kgstest.InParallel(t, func(int) (string, error) {
			space, err := l.Open(t.Context(), ledger.Config{Permute: true})
			if err != nil {
				return "", err
			}
			return space.Fingerprint(), nil
		})
		if n := len(slices.Compact(prints)); n != 1 {
			t.Errorf("16 starts got %d different secrets, want one", n)
		}
	})
}

func TestLedgerOpenRefusesDifferentSecret(t *testing.T) {
	mine, yours := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	// With the configuration "made", Open makes the secret. With the configuration "plain", there is no secret.
	configs := map[string]ledger.Config{
		"made": {Permute: true}, "plain": {},
		"mine": {Permute: true, Secret: mine}, "yours": {Permute: true, Secret: yours},
	}
	for first := range configs {
		t.Run(first, func(t *testing.T) {
			kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
				if _, err := l.Open(t.Context(), configs[first]); err != nil {
					t.Fatal(err)
				}
				for second := range configs {
					space, err := l.Open(t.Context(), configs[second])
					if second == first && err != nil {
						t.Errorf("a second start with the same secret: %v", err)
					}
					if second != first && !errors.Is(err, ledger.ErrWrongSecret) {
						t.Errorf("the configuration %s opened the ledger of configuration %s: %v, error %v", second, first, space, err)
					}
				}
				var kept bool
				err := l.DB.QueryRowContext(t.Context(), `SELECT secret IS NOT NULL FROM kgs_ledger`).Scan(&kept)
				if err != nil || kept != (first == "made") {
					t.Errorf("the ledger stores a secret: %t, error %v", kept, err)
				}
			})
		})
	}
}

func TestReserveFailsBeforeLedgerIsOpened(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		if r, err := l.Reserve(t.Context(), "a", ledger.StateBatch, 3, 1); err == nil {
			t.Errorf("Reserve on a ledger that was never opened returned %v, want an error", r)
		}
	})
}

// If Identify created a ledger, it would choose the secret for a process that starts later.
func TestIdentifyDoesNotCreateLedger(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		mine := ledger.Config{Permute: true, Secret: bytes.Repeat([]byte{1}, 16)}
		if _, err := l.Identify(t.Context(), ledger.Config{Permute: true}); !errors.Is(err, ledger.ErrNotInitialized) {
			t.Errorf("Identify before Open: %v, want ErrNotInitialized", err)
		}
		opened, err := l.Open(t.Context(), mine)
		if err != nil {
			t.Fatal(err)
		}
		space, err := l.Identify(t.Context(), mine)
		if err != nil || space.Fingerprint() != opened.Fingerprint() {
			t.Errorf("Identify after Open: error %v, or another code space", err)
		}
		if _, err := l.Identify(t.Context(), ledger.Config{}); !errors.Is(err, ledger.ErrWrongSecret) {
			t.Errorf("Identify with another permutation: %v, want ErrWrongSecret", err)
		}
	})
}

// TestLedgerReadersAndWritersDoNotBlockEachOther reads the ledger during a change, and changes it during a
// read.
func TestLedgerReadersAndWritersDoNotBlockEachOther(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		err := l.Update(t.Context(), "test", func(ctx context.Context, p *ledger.Tx) error {
			if err := p.InsertReserved(ctx, codespace.Range{Length: 3, Lo: 0, Hi: 10}, "a"); err != nil {
				return err
			}
			l.WantRows(t)
			_, err := l.Counters(ctx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		before, after, err := l.ViewRows(t.Context(), func() { l.MustReserve(t, "b", ledger.StateReserved, 10) })
		if err != nil {
			t.Fatal(err)
		}
		if len(before) != 1 || len(after) != 1 {
			t.Errorf("one transaction read %d ranges, then %d, want 1 each time", len(before), len(after))
		}
	})
}

func TestReserveReturnsWhenContextEnds(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		err := l.Update(t.Context(), "test", func(context.Context, *ledger.Tx) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if r, err := l.Reserve(ctx, "a", ledger.StateBatch, 3, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("reserved %+v while the ledger was locked, error %v; want DeadlineExceeded", r, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
