package pgstore

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"keypool/shortener"
	"keypool/shortener/storetest"
)

// While ForgetKeys runs, a transaction uses an old idempotency key for a new creation. ForgetKeys
// must not remove this key.
func TestForgetKeysKeepsIdempotencyKeyThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	storetest.Insert(t, s, storetest.WithIdempotencyKey("old", "1", 1))
	again := storetest.WithIdempotencyKey("new", "1", 2)
	again.CreatedAt = again.CreatedAt.Add(2 * shortener.IdempotencyKeyLifetime)

	tx, pid := takeKey(t, s, again)
	removed := make(chan int, 1)
	go func() {
		n, err := s.ForgetKeys(t.Context(), again.CreatedAt.Add(-shortener.IdempotencyKeyLifetime), 10)
		if err != nil {
			t.Error(err)
		}
		removed <- n
	}()
	waitForBlocked(t, s, pid)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-removed; n != 0 {
		t.Errorf("ForgetKeys removed %d keys, want none", n)
	}
	if first, err := s.FirstCreation(t.Context(), 7, "1"); err != nil || first.Code != "new" {
		t.Errorf("FirstCreation: %v, %v, want the code new", first, err)
	}
}

// The isolation level does not depend on the default of the database. At the level repeatable read, concurrent inserts with
// the same idempotency key fail.
func TestInsertTransactionUsesReadCommittedIsolation(t *testing.T) {
	t.Parallel()
	s := New(storetest.RepeatableRead(t), storetest.Plain())
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var level string
	_, err = s.transact(t.Context(), conn, func(tx pgx.Tx) ([]shortener.Outcome, error) {
		return nil, tx.QueryRow(t.Context(), `SHOW transaction_isolation`).Scan(&level)
	})
	if level != "read committed" || err != nil {
		t.Errorf("the isolation level is %q, error %v; want read committed", level, err)
	}
}

// takeKey begins a transaction that inserts the idempotency key of link. The result pid is the
// id of the server process of the connection.
func takeKey(t *testing.T, s *Store, link shortener.Link) (tx pgx.Tx, pid uint32) {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // does nothing after a commit
	if taken, _, err := takeKeys(t.Context(), tx, []shortener.Link{link}); err != nil || len(taken) != 1 {
		t.Fatalf("%d keys were taken, %v, want 1", len(taken), err)
	}
	return tx, tx.Conn().PgConn().PID()
}

// waitForBlocked waits until a statement waits for a lock that the server process with the id pid holds.
func waitForBlocked(t *testing.T, s *Store, pid uint32) {
	t.Helper()
	for blocked := false; !blocked; {
		err := s.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid)))`, pid).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// While another transaction has an idempotency key, Insert refuses only the link with this key.
func TestInsertRefusesOnlyLinksWithBusyIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	busy, used := storetest.WithIdempotencyKey("busy", "2", 1), storetest.WithIdempotencyKey("used", "4", 1)
	storetest.Insert(t, s, used)
	tx, _ := takeKey(t, s, storetest.WithIdempotencyKey("else", "2", 1))
	links := []shortener.Link{
		storetest.WithIdempotencyKey("free1", "1", 1), busy, storetest.WithIdempotencyKey("twice", "2", 1), storetest.WithIdempotencyKey("free3", "3", 1),
		storetest.WithIdempotencyKey("again", "4", 1), storetest.Link("none"),
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, links...),
		shortener.Inserted, shortener.Busy, shortener.Busy, shortener.Inserted, shortener.Repeated, shortener.Inserted)
	storetest.WantOutcomes(t, storetest.Insert(t, s, links...),
		shortener.Present, shortener.Busy, shortener.Busy, shortener.Present, shortener.Repeated, shortener.Present)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, busy), shortener.Inserted)
}
