package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/internal/testenv"
	"keypool/shortener"
	"keypool/shortener/storetest"
)

// If a commit stops waiting for a synchronous standby, PostgreSQL keeps the rows, and every transaction sees them. A failover
// to the standby would lose them. So a second call that finds the rows must not succeed before the standby has confirmed them.
func TestStoreConfirmsNoRowThatStandbyDoesNotHave(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	s := New(pool, storetest.Plain())
	requireStandby(t, pool, "absent")
	link := storetest.Link("first")
	link.IdempotencyKey = &shortener.IdempotencyKey{Owner: 1, Key: "a key of 16 bytes"}
	other := storetest.Link("first")
	other.URL = "https://other.example/"
	deleted := storetest.Deleted(link, storetest.Moment())
	insert := func(link shortener.Link) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Insert(ctx, []shortener.Link{link})
			return err
		}
	}
	first := func(ctx context.Context) error {
		_, err := s.FirstCreation(ctx, 1, link.IdempotencyKey.Key)
		return err
	}
	change := func(old, changed shortener.Link) func(context.Context) error {
		return func(ctx context.Context) error { return s.Change(ctx, old, changed) }
	}
	for _, call := range []struct {
		name string
		run  func(context.Context) error
		want shortener.Link // stored link after the call
	}{
		{"Insert", insert(link), link},
		{"the same Insert", insert(link), link},
		{"the same Insert without an idempotency key", insert(storetest.Link("first")), link},
		{"an Insert of another link with the same code", insert(other), link},
		{"FirstCreation", first, link},
		{"a Change that changes nothing", change(link, link), link},
		{"a Change", change(link, deleted), deleted},
		{"a Change of a tombstone that changes nothing", change(deleted, deleted), deleted},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := call.run(ctx)
		cancel()
		if err == nil {
			t.Errorf("%s succeeded without the standby", call.name)
		}
		wantStored(t, s, call.want)
	}
	requireStandby(t, pool, "")
	for name, run := range map[string]func(context.Context) error{"Insert": insert(link), "FirstCreation": first, "Change": change(deleted, deleted)} {
		if err := run(t.Context()); err != nil {
			t.Errorf("%s without a synchronous standby: %v", name, err)
		}
	}
}

// wantStored waits until the store has the link. The wait is necessary because the server may commit a transaction after its
// client has left.
func wantStored(t *testing.T, s *Store, want shortener.Link) {
	t.Helper()
	for {
		got, err := s.Lookup(t.Context(), want.Code)
		if err == nil && got.Version() == want.Version() {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("the stored link is %v, %v; want version %d", got, err, want.Version())
		}
	}
}

// requireStandby makes the commits of new connections wait for the standby with this name. If the name is empty, commits wait
// for no standby.
func requireStandby(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_standby_names = '` + name + `'`, `SELECT pg_reload_conf()`} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for got := "unknown"; got != name; {
		pool.Reset()
		if err := pool.QueryRow(t.Context(), `SHOW synchronous_standby_names`).Scan(&got); err != nil {
			t.Fatal(err)
		}
	}
}
