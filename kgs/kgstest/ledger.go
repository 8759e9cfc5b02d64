package kgstest

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/migrations"
)

// LedgerUnderTest is a ledger with its database, which a test may change directly.
type LedgerUnderTest struct {
	*ledger.Ledger
	DB     *sql.DB
	reopen func() *ledger.Ledger
	Now    string // SQL expression for the time of the database, in microseconds since 1970
}

// OnLedgers runs a test once for each database engine, on a new ledger. The test opens the ledger.
func OnLedgers(t *testing.T, test func(t *testing.T, l LedgerUnderTest)) {
	t.Helper()
	OnEngines(t, func(t *testing.T, newLedger func(*testing.T) LedgerUnderTest) {
		t.Helper()
		test(t, newLedger(t))
	})
}

// NewPostgresLedger creates a ledger in a PostgreSQL database of the test.
func NewPostgresLedger(t *testing.T) LedgerUnderTest {
	t.Helper()
	pool := testenv.Postgres(t)
	db := stdlib.OpenDBFromPool(pool)
	CloseAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db, migrations.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	reopen := func() *ledger.Ledger {
		l := ledger.NewPostgres(pool)
		CloseAfter(t, l.Close)
		return l
	}
	return LedgerUnderTest{reopen(), db, reopen, `CAST(extract(epoch FROM now()) * 1000000 AS bigint)`}
}

// NewSQLiteLedger creates a ledger in an SQLite file of the test.
func NewSQLiteLedger(t *testing.T) LedgerUnderTest {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	CloseAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	// No test crashes the machine, so the commits need no sync. The syncs would take most of the
	// time of a test.
	if _, err := db.Write.ExecContext(t.Context(), `PRAGMA synchronous = OFF`); err != nil {
		t.Fatal(err)
	}
	reopen := func() *ledger.Ledger {
		l := ledger.NewSQLite(db)
		CloseAfter(t, l.Close)
		return l
	}
	return LedgerUnderTest{reopen(), db.Write, reopen, `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`}
}

// OnOpenLedgers is like [OnLedgers], but it opens the ledger before the test. The codes are not permuted.
func OnOpenLedgers(t *testing.T, test func(t *testing.T, l LedgerUnderTest)) {
	t.Helper()
	OnLedgers(t, func(t *testing.T, l LedgerUnderTest) {
		if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
			t.Fatal(err)
		}
		test(t, l)
	})
}

// Exec changes the database directly, without the ledger.
func (b LedgerUnderTest) Exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := b.DB.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// DeclareDead makes the ledger treat holder as dead.
func (b LedgerUnderTest) DeclareDead(t testing.TB, holder string) {
	t.Helper()
	b.Exec(t, `DELETE FROM kgs_holders WHERE holder = $1`, holder)
}

// MustReserve reserves up to n numbers for codes of at least 3 characters.
func (b LedgerUnderTest) MustReserve(t testing.TB, holder string, state ledger.State, n int64) ledger.Reservation {
	t.Helper()
	r, err := b.Reserve(t.Context(), holder, state, 3, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// WantRows compares the rows of the ledger with want. It ignores ids and epochs.
func (b LedgerUnderTest) WantRows(t testing.TB, want ...ledger.Row) {
	t.Helper()
	all, err := b.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Rows {
		all.Rows[i].ID, all.Rows[i].Epoch = 0, 0
	}
	if diff := cmp.Diff(want, all.Rows); diff != "" {
		t.Errorf("ranges in the ledger (-want +got):\n%s", diff)
	}
}

// Row returns a row of the ledger with numbers of 3-character codes.
func Row(lo, hi int64, state ledger.State, holder string) ledger.Row {
	return ledger.Row{Reservation: ledger.Reservation{Range: codespace.Range{Length: 3, Lo: lo, Hi: hi}}, State: state, Holder: holder}
}

// AbandonedRow returns a row of abandoned numbers of 3-character codes.
func AbandonedRow(lo, hi int64, reason string) ledger.Row {
	return ledger.Row{Reservation: ledger.Reservation{Range: codespace.Range{Length: 3, Lo: lo, Hi: hi}}, State: ledger.StateAbandoned, Reason: reason}
}

// MustLend leases up to n keys to client for an hour.
func (b LedgerUnderTest) MustLend(t testing.TB, client, id string, n int64) ledger.Lease {
	t.Helper()
	lease, err := b.Lend(t.Context(), ledger.LeaseRequest{Client: client, ID: id, Length: 3, Count: n, Term: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// MustEndLease ends a lease and returns how many keys its client kept.
func (b LedgerUnderTest) MustEndLease(t testing.TB, client string, id int64, unused, lost []codespace.Range) (kept int64) {
	t.Helper()
	ended, err := b.EndLease(t.Context(), client, id, unused, lost)
	if err != nil {
		t.Fatal(err)
	}
	return ended.Kept
}

// Reopen returns a new value for the same ledger. Neither Open nor Identify has been called on this value, as in a new process.
func (b LedgerUnderTest) Reopen() LedgerUnderTest {
	return LedgerUnderTest{b.reopen(), b.DB, b.reopen, b.Now}
}

// ExpireAll sets the expiry of every lease to the present time minus d.
func (b LedgerUnderTest) ExpireAll(t testing.TB, d time.Duration) {
	t.Helper()
	b.Exec(t, `UPDATE kgs_leases SET expires_at = `+b.Now+` - $1`, d.Microseconds())
}

// OpenWith opens the ledger. It marks all numbers as reserved, except the last n numbers of code
// length 6.
func OpenWith(t *testing.T, l LedgerUnderTest, n int) *codespace.Space {
	t.Helper()
	space, err := l.Open(t.Context(), ledger.Config{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Exec(t, `UPDATE kgs_spaces SET next = size`)
	l.Exec(t, `UPDATE kgs_spaces SET next = size - $1 WHERE length = 6`, n)
	return space
}

// OnEngines runs a test once for each database engine. newLedger creates a ledger on that
// engine.
func OnEngines(t *testing.T, test func(t *testing.T, newLedger func(*testing.T) LedgerUnderTest)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, NewPostgresLedger) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, NewSQLiteLedger) })
}

// WhileLocked locks the only row of the table kgs_ledger in a transaction, and runs f before the transaction ends.
func (b LedgerUnderTest) WhileLocked(t testing.TB, f func()) {
	t.Helper()
	tx, err := b.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // the transaction changed nothing
	if _, err := tx.ExecContext(t.Context(), `UPDATE kgs_ledger SET id = 1 WHERE id = 1`); err != nil {
		t.Fatal(err)
	}
	f()
}
