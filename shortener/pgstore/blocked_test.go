package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keypool/shortener"
	"keypool/shortener/commit"
	"keypool/shortener/service"
	"keypool/shortener/storetest"
)

// holdCodes begins a transaction that inserts links with the given codes.
func holdCodes(t *testing.T, s *Store, codes ...string) pgx.Tx {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // does nothing after the end of the transaction
	var links []shortener.Link
	for _, code := range codes {
		links = append(links, storetest.Link(code))
	}
	if inserted, err := s.insertNew(t.Context(), tx, links); err != nil || len(inserted) != len(links) {
		t.Fatalf("%d links were inserted, %v, want %d", len(inserted), err, len(links))
	}
	return tx
}

// While another transaction holds two codes, Insert refuses only the links with these codes. The test runs each of the
// three forms of an Insert: without ON CONFLICT, with ON CONFLICT and with idempotency keys. The context has the time
// limit that the group commit gives an Insert.
func TestInsertRefusesOnlyLinksWhoseCodesAnotherTransactionHolds(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	tx := holdCodes(t, s, "held00", "un-ranked-held")
	var keyed shortener.Link
	for form := range 3 {
		var links []shortener.Link
		for i := range 100 {
			links = append(links, storetest.Link(fmt.Sprintf("%d%05d", form, i)))
		}
		links[17], links[64], links[65] = storetest.Link("held00"), storetest.Link("un-ranked-held"), storetest.Link("held00")
		switch form {
		case 1:
			s.suspicious.Store(1) // the Insert uses ON CONFLICT
		case 2:
			keyed = storetest.WithIdempotencyKey("held00", "1", 1)
			links[17], links[18] = keyed, storetest.WithIdempotencyKey(links[18].Code, "2", 1)
		}
		want := slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links))
		want[17], want[64], want[65] = shortener.CodeBusy, shortener.CodeBusy, shortener.CodeBusy
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		outcomes, err := s.Insert(ctx, links)
		cancel()
		if err != nil {
			t.Fatalf("Insert in form %d: %v", form, err)
		}
		storetest.WantOutcomes(t, outcomes, want...)
		storetest.WantLink(t, s, links[99])
	}
	if first, err := s.FirstCreation(t.Context(), keyed.IdempotencyKey.Owner, "1"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("the idempotency key of the refused link is used: %v, %v", first, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, keyed, storetest.Link("un-ranked-held")), shortener.Inserted, shortener.Inserted)
}

// A statement that waits too long for the lock of a table waits for no particular link, so its error must not count as a
// blocked link.
func TestWaitForTableDoesNotCountAsBlockedLink(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	if _, err := holdCodes(t, s).Exec(t.Context(), `LOCK TABLE ranked_links IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	_, err := holdCodes(t, s).Exec(t.Context(), lockTimeout+`; LOCK TABLE ranked_links IN ROW EXCLUSIVE MODE`)
	if !isLockTimeout(err) || isCodeLocked(err) {
		t.Errorf("the wait for the table counts as a blocked link: %v", err)
	}
}

// lockLinks locks the table of the links with ranks. The transaction tx holds the lock until the server ends tx after the
// given time.
func lockLinks(t *testing.T, tx pgx.Tx, duration string) {
	t.Helper()
	_, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = '`+duration+`'; LOCK TABLE ranked_links IN ACCESS EXCLUSIVE MODE`)
	if err != nil {
		t.Fatal(err)
	}
}

// Insert waits for the lock of a table for longer than lockTimeout. Before the lock, a first Insert connects and prepares the
// statements.
func TestInsertWaitsForTable(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	for form := range 3 {
		links := []shortener.Link{storetest.Link(fmt.Sprintf("first%d", form)), storetest.Link(fmt.Sprintf("other%d", form))}
		switch form {
		case 1:
			s.suspicious.Store(2) // both Inserts use ON CONFLICT
		case 2:
			links = []shortener.Link{storetest.WithIdempotencyKey("first2", "1", 1), storetest.WithIdempotencyKey("other2", "2", 1)}
		}
		tx := holdCodes(t, s)
		storetest.WantOutcomes(t, storetest.Insert(t, s, links[0]), shortener.Inserted)
		lockLinks(t, tx, "400ms")
		outcomes, err := s.Insert(t.Context(), links[1:])
		if err != nil {
			t.Fatalf("Insert in form %d: %v", form, err)
		}
		storetest.WantOutcomes(t, outcomes, shortener.Inserted)
	}
}

// unblocked calls insertUnblocked with shortTimeout in a transaction. If the call succeeds, it passes the transaction to the
// parameter check.
func unblocked(t *testing.T, s *Store, links []shortener.Link, check func(*batchCounter)) ([]shortener.Outcome, error) {
	t.Helper()
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	return s.transact(t.Context(), conn, func(tx pgx.Tx) ([]shortener.Outcome, error) {
		counter := &batchCounter{Tx: tx}
		outcomes, err := s.insertUnblocked(t.Context(), counter, links, shortTimeout)
		if err == nil {
			check(counter)
		}
		return outcomes, err
	})
}

// After a wait for a code, Insert limits the next waits to a millisecond. This limit applies neither to the lock of a table
// nor to the statements after the inserts.
func TestShortLockTimeoutAppliesOnlyToWaitsForCodes(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	tx := holdCodes(t, s)
	holdCodes(t, s, "un-ranked-held")
	s.suspicious.Store(1) // this Insert prepares the statement with ON CONFLICT
	storetest.WantOutcomes(t, storetest.Insert(t, s, storetest.Link("first0")), shortener.Inserted)
	lockLinks(t, tx, "100ms")
	outcomes, err := unblocked(t, s, []shortener.Link{storetest.Link("other0"), storetest.Link("un-ranked-held")}, func(tx *batchCounter) {
		var timeout string
		if err := tx.QueryRow(t.Context(), `SHOW lock_timeout`).Scan(&timeout); err != nil || timeout != "0" {
			t.Errorf("after the inserts, the lock timeout is %q, %v, want 0", timeout, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	storetest.WantOutcomes(t, outcomes, shortener.Inserted, shortener.CodeBusy)
}

// batchCounter is a transaction that counts its batches of statements.
type batchCounter struct {
	pgx.Tx
	batches int
}

func (c *batchCounter) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c.batches++
	return c.Tx.SendBatch(ctx, b)
}

// Another transaction holds the codes of all links, as if the caller repeated an Insert that the server still executes. The
// number of statements does not grow with the number of links.
func TestInsertStopsSplittingBatchIfManyCodesAreLocked(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	var links []shortener.Link
	var codes []string
	for i := range 512 {
		codes = append(codes, fmt.Sprintf("1%05d", i))
		links = append(links, storetest.Link(codes[i]))
	}
	holdCodes(t, s, codes...)
	outcomes, err := unblocked(t, s, links, func(tx *batchCounter) {
		if tx.batches > 50 {
			t.Errorf("insertUnblocked sends %d batches", tx.batches)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	storetest.WantOutcomes(t, outcomes, slices.Repeat([]shortener.Outcome{shortener.CodeBusy}, len(links))...)
}

// A creation whose alias is held by another transaction gets an UnavailableError. The server stays ready.
func TestCreationWithLockedAliasGetsUnavailableError(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	service := service.New(service.Config{Store: s})
	t.Cleanup(func() {
		if err := service.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	holdCodes(t, s, "held00")
	alias := "held00"
	link, _, err := service.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: &alias})
	for errors.Is(err, commit.ErrTooSlow) { // on a busy machine
		link, _, err = service.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: &alias})
	}
	if u := (*shortener.UnavailableError)(nil); !errors.As(err, &u) || !errors.Is(err, shortener.ErrNotWritten) {
		t.Errorf("Create of the held alias: %v, %v; want an UnavailableError that wraps ErrNotWritten", link, err)
	}
	if err := service.Ready(t.Context()); err != nil {
		t.Errorf("the server is not ready: %v", err)
	}
}

// PostgreSQL ends a transaction whose process is suspended. InsertWith waits until then, because it does not limit its wait.
// When the process resumes, its commit fails.
func TestServerEndsTransactionOfSuspendedProcess(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	links := []shortener.Link{storetest.Link("held00")}
	outcomes, err := s.transact(t.Context(), conn, func(tx pgx.Tx) ([]shortener.Outcome, error) {
		if _, err := s.insertNew(t.Context(), tx, links); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		outcomes, err := s.InsertWith(ctx, links, func([]shortener.Outcome) (string, any, error) { return "", nil, nil })
		if err != nil || outcomes[0] != shortener.Inserted {
			t.Errorf("the transaction still holds the code: %v, %v", outcomes, err)
		}
		return outcomes, nil
	})
	if err == nil || errors.Is(err, shortener.ErrNotWritten) {
		t.Errorf("the commit after the end of the transaction: %v, %v; want an error of unknown outcome", outcomes, err)
	}
}
