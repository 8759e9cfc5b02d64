package kgstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/migrations"
)

// KeyTables is a database with the tables of a PostgreSQL pool. The pool is empty, and is not open
// until a filler prepares it.
type KeyTables struct {
	T   testing.TB
	URL string
	DB  *pgxpool.Pool
}

// NewKeyTables creates the tables in a PostgreSQL database of the test.
func NewKeyTables(t testing.TB) *KeyTables {
	t.Helper()
	k := &KeyTables{T: t, URL: testenv.PostgresURL(t)}
	k.DB = k.Connect()
	db := stdlib.OpenDBFromPool(k.DB)
	CloseAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db, migrations.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	return k
}

// Connect returns a new connection pool, as another process would open it.
func (k *KeyTables) Connect() *pgxpool.Pool {
	k.T.Helper()
	db, err := pgxpool.New(k.T.Context(), k.URL)
	if err != nil {
		k.T.Fatal(err)
	}
	k.T.Cleanup(db.Close)
	return db
}

// Exec changes the database directly.
func (k *KeyTables) Exec(query string, args ...any) {
	k.T.Helper()
	if _, err := k.DB.Exec(k.T.Context(), query, args...); err != nil {
		k.T.Fatalf("%s: %v", query, err)
	}
}

// Count returns the single number that a query returns.
func (k *KeyTables) Count(query string) (n int) {
	k.T.Helper()
	if err := k.DB.QueryRow(k.T.Context(), query).Scan(&n); err != nil {
		k.T.Fatalf("%s: %v", query, err)
	}
	return n
}

// DrawAgain makes keys available even if they were used. A worker does this by mistake if another process
// uses a code at a certain moment: after the worker has found the code unused, and before the worker
// inserts it.
func (k *KeyTables) DrawAgain(codes ...string) {
	k.T.Helper()
	k.Exec(`WITH pool AS (
			UPDATE key_pool SET last_id = last_id + cardinality($1::text[]) RETURNING last_id - cardinality($1::text[]) AS before)
		INSERT INTO available_keys (id, key)
		SELECT before + n, key FROM pool, unnest($1::text[]) WITH ORDINALITY AS drawn (key, n) ON CONFLICT DO NOTHING`, codes)
}

// AddHolder adds holder to the ledger as a live process.
func (k *KeyTables) AddHolder(holder string) {
	k.T.Helper()
	k.Exec(`INSERT INTO kgs_holders (holder, seen_at) VALUES ($1, now())`, holder)
}

// DeclareDead makes the ledger treat holder as dead. It also ages the keys that holder has reserved; see
// [KeyTables.AgeReservedKeys].
func (k *KeyTables) DeclareDead(holder string, term time.Duration) {
	k.T.Helper()
	k.Exec(`DELETE FROM kgs_holders WHERE holder = $1`, holder)
	k.AgeReservedKeys(holder, term)
}

// AgeReservedKeys changes the time at which holder reserved its keys, as if holder had reserved them longer than
// term ago.
func (k *KeyTables) AgeReservedKeys(holder string, term time.Duration) {
	k.T.Helper()
	k.Exec(`UPDATE available_keys SET reserved_at = reserved_at - $2::interval - interval '1s' WHERE holder = $1`, holder, term)
}

// DrawnCodes is a generator that returns the given codes.
type DrawnCodes struct{ Codes []string }

// Next returns the next code. It fails when no code is left.
func (s *DrawnCodes) Next(context.Context, string, int) (kgs.Key, error) {
	if len(s.Codes) == 0 {
		return kgs.Key{}, errors.New("no drawn code is left")
	}
	k := kgs.Key{Code: s.Codes[0], Source: kgs.SourceRandom}
	s.Codes = s.Codes[1:]
	return k, nil
}
