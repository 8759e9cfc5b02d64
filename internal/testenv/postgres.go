package testenv

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres returns a connection pool whose search_path is a new, empty schema of this test. After
// the test, the pool is closed and the schema is dropped.
//
// The tests share the server and its database, so advisory locks, notifications and server
// settings affect other tests. The server runs without fsync. A test of durability uses
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

// PostgresURL returns the URL that [Postgres] connects to, with the schema in the search_path
// parameter. The caller must close its connections before the test ends.
func PostgresURL(t testing.TB) string {
	t.Helper()
	base, err := url.Parse(postgres.URL(t))
	if err != nil || base.Scheme == "" {
		t.Fatal("TEST_DATABASE_URL is not a postgres:// URL") // does not print err, which contains the password
	}
	schema := "test_" + strings.ToLower(rand.Text())
	execute(t, base.String(), "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		// If the test left a transaction open, DROP SCHEMA fails after 50 s, which is less than setupTimeout.
		execute(t, base.String(), "SET lock_timeout = '50s'; DROP SCHEMA "+schema+" CASCADE")
	})
	query := base.Query()
	query.Set("search_path", schema)
	own := *base
	own.RawQuery = query.Encode()
	return own.String()
}

// execute runs SQL on a new connection and closes it. It reports a failure without ending the
// test, so that a cleanup can call it.
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
