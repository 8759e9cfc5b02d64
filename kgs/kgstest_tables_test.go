package kgs

import (
	"context"
	"errors"
	"keypool/internal/testenv"
	"keypool/migrations"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// keyTables is a database with the tables of a PostgresPool, empty and open.
type keyTables struct {
	t   testing.TB
	url string
	db  *pgxpool.Pool
}

func newKeyTables(t testing.TB) *keyTables {
	t.Helper()
	k := &keyTables{t: t, url: testenv.PostgresURL(t)}
	k.db = k.connect()
	db := stdlib.OpenDBFromPool(k.db)
	defer db.Close()
	if err := migrations.Up(t.Context(), db, migrations.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	return k
}

// connect is the connections of one process.
func (k *keyTables) connect() *pgxpool.Pool {
	k.t.Helper()
	db, err := pgxpool.New(k.t.Context(), k.url)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(db.Close)
	return db
}

func (k *keyTables) exec(query string, args ...any) {
	k.t.Helper()
	if _, err := k.db.Exec(k.t.Context(), query, args...); err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
}

// count is the one number that a query gives.
func (k *keyTables) count(query string) (n int) {
	k.t.Helper()
	if err := k.db.QueryRow(k.t.Context(), query).Scan(&n); err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// drawAgain makes keys available although they may have been used, as a batch job does that
// drew them before they were there, and got its turn after they were taken.
func (k *keyTables) drawAgain(codes ...string) {
	k.t.Helper()
	k.exec(`WITH pool AS (
			UPDATE key_pool SET last_id = last_id + cardinality($1::text[]) RETURNING last_id - cardinality($1::text[]) AS before)
		INSERT INTO available_keys (id, key)
		SELECT before + n, key FROM pool, unnest($1::text[]) WITH ORDINALITY AS drawn (key, n) ON CONFLICT DO NOTHING`, codes)
}

// addHolder makes holder a process that the ledger knows.
func (k *keyTables) addHolder(holder string) {
	k.t.Helper()
	k.exec(`INSERT INTO kgs_holders (holder, seen_at) VALUES ($1, now())`, holder)
}

// die is what is left of a process a term and more after its death.
func (k *keyTables) die(holder string, term time.Duration) {
	k.t.Helper()
	k.exec(`DELETE FROM kgs_holders WHERE holder = $1`, holder)
	k.age(holder, term)
}

// age makes what holder has reserved older than term.
func (k *keyTables) age(holder string, term time.Duration) {
	k.t.Helper()
	k.exec(`UPDATE available_keys SET reserved_at = reserved_at - $2::interval - interval '1s' WHERE holder = $1`, holder, term)
}

// drawnCodes is a generator of given codes.
type drawnCodes struct{ codes []string }

func (s *drawnCodes) Next(context.Context, string, int) (Key, error) {
	if len(s.codes) == 0 {
		return Key{}, errors.New("all is said")
	}
	k := Key{Code: s.codes[0], Source: SourceRandom}
	s.codes = s.codes[1:]
	return k, nil
}
