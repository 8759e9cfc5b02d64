package testenv

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres returns a pool whose search_path is a fresh, empty schema of the test's own.
// Pool and schema are gone after the test.
//
// The server and its database are shared: advisory locks, notifications and server
// settings reach other tests. It runs without fsync; a test of durability takes
// [StartPostgres].
func Postgres(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), PostgresURL(t))
	if err != nil {
		t.Fatalf("connect to Postgres: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// PostgresURL returns the URL of what [Postgres] connects to, the schema being in its
// search_path parameter. Whoever connects with it closes before the test ends.
func PostgresURL(t testing.TB) string {
	t.Helper()
	base, err := url.Parse(postgres.URL(t))
	if err != nil || base.Scheme == "" {
		t.Fatal("TEST_DATABASE_URL is not a postgres:// URL") // no err: it holds the password
	}
	schema := "test_" + strings.ToLower(rand.Text())
	execute(t, base.String(), "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		// A test that left a transaction open is told so instead of waited for.
		execute(t, base.String(), "SET lock_timeout = '10s'; DROP SCHEMA "+schema+" CASCADE")
	})
	query := base.Query()
	query.Set("search_path", schema)
	own := *base
	own.RawQuery = query.Encode()
	return own.String()
}

// execute runs SQL on a connection that is closed again. It reports a failure without
// ending the test, so that it can be used in a cleanup.
func execute(t testing.TB, url, sql string) {
	t.Helper()
	ctx, cancel := setup(t)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Errorf("connect to Postgres: %v", err)
		return
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	if err := conn.Close(ctx); err != nil {
		t.Errorf("close the connection to Postgres: %v", err)
	}
}
