// Package storetest checks that the implementations of [shortener.Store] follow its contract.
//
// The tests of each implementation call [Run]. The other functions are helpers for tests and
// benchmarks of the implementations, and of other packages that need a real database. Only
// tests may import this package.
package storetest

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/migrations"
	"keypool/shortener"
)

// SQLite returns a new database with all tables. The database is closed when the test ends.
func SQLite(t testing.TB) *sqlite.DB {
	t.Helper()
	return OpenSQLite(t, filepath.Join(t.TempDir(), "links.db"))
}

// OpenSQLite opens the database at path and creates the missing tables. The database is
// closed when the test ends. In a test, commits do not wait for the disk. In a benchmark, commits are durable, as in the
// product.
func OpenSQLite(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	if _, measured := t.(*testing.B); measured {
		return db
	}
	// No test crashes the machine, so the commits need no sync. On a slow disk, a sync may take longer than the time limit
	// of a creation.
	if _, err := db.Write.ExecContext(t.Context(), `PRAGMA synchronous = OFF`); err != nil {
		t.Fatal(err)
	}
	return db
}

// Postgres returns a pool of connections to a new schema with all tables. The schema is on the
// server that the tests share.
func Postgres(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := testenv.Postgres(t)
	MigratePostgres(t, pool)
	return pool
}

// RepeatableRead is like [Postgres], but the default isolation level of the connections is repeatable read.
func RepeatableRead(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config := Postgres(t).Config()
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// MigratePostgres creates all tables in the search path of pool.
func MigratePostgres(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(migrations.Up(t.Context(), db, migrations.PostgreSQL), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// Moment returns a time with whole microseconds in a zone other than UTC.
func Moment() time.Time {
	return time.Date(2026, 3, 4, 5, 6, 7, 891234000, time.FixedZone("", 3600))
}

// Link returns a link with the given code, created at [Moment]. Two calls with the same code
// return equal links.
func Link(code string) shortener.Link {
	return shortener.Link{Code: code, URL: "https://example.com/" + code, Source: "pool", CreatedAt: Moment().UTC()}
}

// Deleted returns the link after its deletion at the given time. The only details of the
// result are Version and ChangedAt.
func Deleted(l shortener.Link, at time.Time) shortener.Link {
	l.DeletedAt = at.UTC()
	l.Details = &shortener.Details{Version: l.Version() + 1, ChangedAt: at.UTC()}
	return l
}

// Delete replaces the stored link l by the result of [Deleted] at [Moment]. An error ends the
// test.
func Delete(t testing.TB, s shortener.Store, l shortener.Link) {
	t.Helper()
	if err := s.Change(t.Context(), l, Deleted(l, Moment())); err != nil {
		t.Fatalf("delete the link %q: %v", l.Code, err)
	}
}

// Insert inserts links and returns their outcomes. An error ends the test.
func Insert(t testing.TB, s shortener.Store, links ...shortener.Link) []shortener.Outcome {
	t.Helper()
	outcomes, err := s.Insert(t.Context(), links)
	if err != nil {
		t.Fatalf("Insert: %v", err)
	}
	return outcomes
}

// WantOutcomes ends the test if got differs from want.
func WantOutcomes(t testing.TB, got []shortener.Outcome, want ...shortener.Outcome) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("outcomes (-want +got):\n%s", diff)
	}
}

// WantLink ends the test if s does not contain the link want.
func WantLink(t testing.TB, s shortener.Store, want shortener.Link) {
	t.Helper()
	got, err := s.Lookup(t.Context(), want.Code)
	if err != nil {
		t.Fatalf("Lookup(%q): %v", want.Code, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Lookup(%q) (-want +got):\n%s", want.Code, diff)
	}
	if got.CreatedAt.Location() != time.UTC {
		t.Fatalf("Lookup(%q) returned a time in %v, want UTC", want.Code, got.CreatedAt.Location())
	}
}
