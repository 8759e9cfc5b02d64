package kgs

import (
	"context"
	"database/sql"
	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/migrations"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"
)

// books is a ledger under test, with a way around it.
type books struct {
	*Ledger
	db     *sql.DB
	reopen func() *Ledger
	now    string // the time of the database, in microseconds since 1970
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
	reopen := func() *Ledger {
		l := NewPostgresLedger(pool)
		closeAfter(t, l.Close)
		return l
	}
	return books{reopen(), db, reopen, `CAST(extract(epoch FROM now()) * 1000000 AS bigint)`}
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
	reopen := func() *Ledger {
		l := NewSQLiteLedger(db)
		closeAfter(t, l.Close)
		return l
	}
	return books{reopen(), db.Write, reopen, `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`}
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

func (b books) lend(t testing.TB, client, id string, n int64) ClientLease {
	t.Helper()
	lease, err := b.Lend(t.Context(), LeaseRequest{Client: client, ID: id, Length: 3, Count: n, Term: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func (b books) endLease(t testing.TB, client string, id int64, unused, lost []Run) (kept int64) {
	t.Helper()
	kept, err := b.EndLease(t.Context(), client, id, unused, lost)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// another is the same ledger as another process has it.
func (b books) another() books {
	return books{b.reopen(), b.db, b.reopen, b.now}
}

// expire lets time pass until every lease is over, and d more.
func (b books) expire(t testing.TB, d time.Duration) {
	t.Helper()
	b.exec(t, `UPDATE kgs_leases SET expires_at = `+b.now+` - $1`, d.Microseconds())
}

// openWith leaves exactly so many numbers in the ledger.
func openWith(t *testing.T, l books, keys int) *Space {
	t.Helper()
	space, err := l.Open(t.Context(), LedgerConfig{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	l.exec(t, `UPDATE kgs_spaces SET next = size`)
	l.exec(t, `UPDATE kgs_spaces SET next = size - $1 WHERE length = 6`, keys)
	return space
}

// onEngines runs a test with a maker of ledgers of each engine.
func onEngines(t *testing.T, test func(t *testing.T, newBooks func(*testing.T) books)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgresBooks) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, sqliteBooks) })
}

// await polls until done or the test is stuck.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still not: %s", what)
		}
	}
}

// whileLocked runs f while another process holds the lock of the ledger's row.
func (b books) whileLocked(t testing.TB, f func()) {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // it changed nothing
	if _, err := tx.ExecContext(t.Context(), `UPDATE kgs_ledger SET id = 1 WHERE id = 1`); err != nil {
		t.Fatal(err)
	}
	f()
}
