package app

import (
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/internal/testenv"
)

// openSession opens a connection, which is closed when the test ends.
func openSession(t *testing.T, databaseURL string, check connectionCheck) (*pgxpool.Conn, error) {
	t.Helper()
	var c Core
	pool, err := c.newPool(t.Context(), settings(t, databaseURL).Database.Postgres, check)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	if err == nil {
		t.Cleanup(conn.Release)
	}
	return conn, err
}

// show returns the value of synchronous_commit in the session of conn.
func show(t *testing.T, conn *pgxpool.Conn) string {
	t.Helper()
	return showSetting(t, conn, "synchronous_commit")
}

func showSetting(t *testing.T, conn *pgxpool.Conn, name string) (value string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// At the level repeatable read, a concurrent insert of the same alias would fail instead of finding the alias in use.
func TestSessionReadsCommittedIfDefaultIsRepeatableRead(t *testing.T) {
	t.Parallel()
	database := testenv.StartPostgres(t, "default_transaction_isolation=repeatable read").URL
	conn, err := openSession(t, database, requireDurable)
	if err != nil {
		t.Fatal(err)
	}
	if got := showSetting(t, conn, "transaction_isolation"); got != "read committed" {
		t.Errorf("transaction_isolation=%s, want read committed", got)
	}
}

// With synchronous_commit=off, PostgreSQL would lose acknowledged links in a crash. With local, it would lose them in a failover to a
// synchronous standby.
func TestSessionCommitsSynchronouslyIfDefaultDoesNot(t *testing.T) {
	t.Parallel()
	database := testenv.StartPostgres(t, "synchronous_commit=off").URL
	for value, want := range map[string]string{"": "on", "off": "on", "local": "on", "remote_write": "remote_write", "remote_apply": "remote_apply"} {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		if value != "" {
			query := u.Query()
			query.Set("options", "-csynchronous_commit="+value)
			u.RawQuery = query.Encode()
		}
		conn, err := openSession(t, u.String(), requireDurable)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(t, conn); got != want {
			t.Errorf("options with the value %q: synchronous_commit=%s, want %s", value, got, want)
		}
	}
}

// A session keeps its setting if the default changes to off.
func TestSessionCommitsSynchronouslyAfterDefaultBecomesOff(t *testing.T) {
	t.Parallel()
	postgres := testenv.StartPostgres(t)
	conn, err := openSession(t, postgres.URL, requireDurable)
	if err != nil {
		t.Fatal(err)
	}
	reset := func() (value string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), selectDefault).Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := reset(); got != "on" {
		t.Fatalf("the default is %s, want on", got)
	}
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_commit = off`, `SELECT pg_reload_conf()`} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for reset() != "off" { // the session loads the new default between two statements
	}
	if got := show(t, conn); got != "on" {
		t.Errorf("synchronous_commit=%s, want on", got)
	}
}

// A pooler can run a transaction in a session that lacks the setting of requireDurable. So if the default is off or local,
// requireDurable refuses the pooler. acceptConnection accepts the pooler, because the connections to a replica commit
// nothing.
func TestConnectionToPoolerFailsIfCommitsAreAsynchronous(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]error{"on": nil, "off": errNotDurable, "local": errNotDurable} {
		pooler := testenv.StartPgBouncer(t, testenv.StartPostgres(t, "synchronous_commit="+value)).URL
		u, err := url.Parse(pooler)
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		query.Set("default_query_exec_mode", "simple_protocol")
		u.RawQuery = query.Encode()
		for _, databaseURL := range []string{pooler, u.String()} {
			if _, err := openSession(t, databaseURL, requireDurable); !errors.Is(err, want) {
				t.Errorf("synchronous_commit=%s, query %q: %v, want %v", value, u.RawQuery, err, want)
			}
			if _, err := openSession(t, databaseURL, acceptConnection); err != nil {
				t.Errorf("synchronous_commit=%s, query %q, replica: %v", value, u.RawQuery, err)
			}
		}
	}
}
