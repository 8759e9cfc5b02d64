package kgs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/migrations"
)

// books is a ledger under test, with a way around it.
type books struct {
	*Ledger
	db *sql.DB
}

// onLedgers runs a test on a fresh ledger of each engine, not opened yet.
func onLedgers(t *testing.T, test func(t *testing.T, l books)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgresBooks(t)) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, sqliteBooks(t)) })
}

func postgresBooks(t *testing.T) books {
	t.Helper()
	pool := testenv.Postgres(t)
	db := stdlib.OpenDBFromPool(pool)
	closeAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db, migrations.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	l := NewPostgresLedger(pool)
	closeAfter(t, l.Close)
	return books{l, db}
}

func sqliteBooks(t *testing.T) books {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	// No test crashes the machine, and a sync for every change would take most of the time.
	if _, err := db.Write.ExecContext(t.Context(), `PRAGMA synchronous = OFF`); err != nil {
		t.Fatal(err)
	}
	l := NewSQLiteLedger(db)
	closeAfter(t, l.Close)
	return books{l, db.Write}
}

func closeAfter(t *testing.T, closer func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := closer(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// onOpenLedgers is onLedgers with a ledger that keeps counter order.
func onOpenLedgers(t *testing.T, test func(t *testing.T, l books)) {
	t.Helper()
	onLedgers(t, func(t *testing.T, l books) {
		if _, err := l.Open(t.Context(), LedgerConfig{}); err != nil {
			t.Fatal(err)
		}
		test(t, l)
	})
}

// exec changes the database behind the ledger's back.
func (b books) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// crash makes holder a process that was declared dead.
func (b books) crash(t testing.TB, holder string) {
	t.Helper()
	b.exec(t, `DELETE FROM kgs_holders WHERE holder = $1`, holder)
}

func (b books) reserve(t testing.TB, holder string, state RangeState, n int64) Range {
	t.Helper()
	r, err := b.Reserve(t.Context(), holder, state, 3, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// want compares the rows of the ledger with what they should be, ids and epochs aside.
func (b books) want(t testing.TB, want ...BookedRange) {
	t.Helper()
	all, err := b.Books(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Ranges {
		all.Ranges[i].ID, all.Ranges[i].Epoch = 0, 0
	}
	if diff := cmp.Diff(want, all.Ranges); diff != "" {
		t.Errorf("ranges in the ledger (-want +got):\n%s", diff)
	}
}

func row(lo, hi int64, state RangeState, holder string) BookedRange {
	return BookedRange{Range: Range{Run: Run{3, lo, hi}}, State: state, Holder: holder}
}

func lostRow(lo, hi int64, reason string) BookedRange {
	return BookedRange{Range: Range{Run: Run{3, lo, hi}}, State: RangeAbandoned, Reason: reason}
}

// inParallel runs f 16 times at once and gives the results.
func inParallel[T any](t *testing.T, f func(i int) (T, error)) []T {
	t.Helper()
	results := make([]T, 16)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			var err error
			if results[i], err = f(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return results
}

func TestLedgerOpenMakesOneSecret(t *testing.T) {
	onLedgers(t, func(t *testing.T, l books) {
		prints := inParallel(t, func(int) (string, error) {
			space, err := l.Open(t.Context(), LedgerConfig{Permute: true})
			if err != nil {
				return "", err
			}
			return space.Fingerprint(), nil
		})
		if n := len(slices.Compact(prints)); n != 1 {
			t.Errorf("16 starts got %d different secrets", n)
		}
	})
}

func TestLedgerOpenRefusesAnotherSecret(t *testing.T) {
	mine, yours := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	configs := map[string]LedgerConfig{
		"made": {Permute: true}, "plain": {},
		"mine": {Permute: true, Secret: mine}, "yours": {Permute: true, Secret: yours},
	}
	for first := range configs {
		t.Run(first, func(t *testing.T) {
			onLedgers(t, func(t *testing.T, l books) {
				if _, err := l.Open(t.Context(), configs[first]); err != nil {
					t.Fatal(err)
				}
				for second := range configs {
					space, err := l.Open(t.Context(), configs[second])
					if second == first && err != nil {
						t.Errorf("a second start of the same: %v", err)
					}
					if second != first && !errors.Is(err, ErrWrongSecret) {
						t.Errorf("%s opened the ledger of %s: %v, error %v", second, first, space, err)
					}
				}
				var kept bool
				err := l.db.QueryRowContext(t.Context(), `SELECT secret IS NOT NULL FROM kgs_ledger`).Scan(&kept)
				if err != nil || kept != (first == "made") {
					t.Errorf("the secret is kept: %t, error %v", kept, err)
				}
			})
		})
	}
}

func TestLedgerMustBeOpened(t *testing.T) {
	onLedgers(t, func(t *testing.T, l books) {
		if r, err := l.Reserve(t.Context(), "a", RangeBatch, 3, 1); err == nil {
			t.Errorf("a ledger that was never opened gave %v", r)
		}
	})
}

// Who only looks must not choose the secret of those who come after.
func TestLedgerIsNotMadeByALook(t *testing.T) {
	onLedgers(t, func(t *testing.T, l books) {
		mine := LedgerConfig{Permute: true, Secret: bytes.Repeat([]byte{1}, 16)}
		if _, err := l.Identify(t.Context(), LedgerConfig{Permute: true}); !errors.Is(err, ErrNeverOpened) {
			t.Errorf("Identify before Open: %v", err)
		}
		opened, err := l.Open(t.Context(), mine)
		if err != nil {
			t.Fatal(err)
		}
		space, err := l.Identify(t.Context(), mine)
		if err != nil || space.Fingerprint() != opened.Fingerprint() {
			t.Errorf("Identify after Open: %v", err)
		}
		if _, err := l.Identify(t.Context(), LedgerConfig{}); !errors.Is(err, ErrWrongSecret) {
			t.Errorf("Identify with another permutation: %v", err)
		}
	})
}

// TestReadersAndWritersDoNotWait looks at the books in the middle of a change, and
// changes them in the middle of a look.
func TestReadersAndWritersDoNotWait(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		err := l.post(t.Context(), "test", func(ctx context.Context, p *posting) error {
			if _, err := p.insert(ctx, Run{3, 0, 10}, RangeReserved, "a", ""); err != nil {
				return err
			}
			l.want(t)
			_, err := l.Counters(ctx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = l.look(t.Context(), "test", func(tx *sql.Tx) error {
			before, err := collect(t.Context(), tx, scanBooked, selectBooked)
			if err != nil {
				return err
			}
			l.reserve(t, "b", RangeReserved, 10)
			after, err := collect(t.Context(), tx, scanBooked, selectBooked)
			if len(before) != 1 || len(after) != 1 {
				t.Errorf("one look saw %d ranges, then %d", len(before), len(after))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestChangeIsBounded(t *testing.T) {
	onOpenLedgers(t, func(t *testing.T, l books) {
		err := l.post(t.Context(), "test", func(context.Context, *posting) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if r, err := l.Reserve(ctx, "a", RangeBatch, 3, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("reserved %+v while the ledger was locked, error %v", r, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
