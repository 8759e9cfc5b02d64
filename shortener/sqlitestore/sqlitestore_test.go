package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/shortener"
	"keypool/shortener/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStoreFollowsContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, order shortener.Order) shortener.Store { return New(storetest.SQLite(t), order) })
}

func TestStoreRefusesDatabaseWithAnotherOrderOfLinks(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	storetest.RefusesOtherOrder(t, New(db, storetest.Plain()), New(db, storetest.Reversed()))
}

// TestInsertFailsWhenDiskIsFull limits a database to its current size. Insert must fail, and must
// succeed after the test removes the limit.
func TestInsertFailsWhenDiskIsFull(t *testing.T) {
	t.Parallel()
	s := New(storetest.SQLite(t), storetest.Plain())
	exec := func(sql string) {
		t.Helper()
		if _, err := s.db.Write.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Insert(t, s, storetest.Link("before"))
	exec("PRAGMA max_page_count = 1") // SQLite raises the limit to the current size
	large := storetest.Link("large")
	large.URL += strings.Repeat("x", 100_000)
	_, err := s.Insert(t.Context(), []shortener.Link{large})
	if !errors.Is(err, shortener.ErrStoreFull) || !errors.Is(err, shortener.ErrNotWritten) {
		t.Fatalf("Insert into a full database: %v, want ErrStoreFull and ErrNotWritten", err)
	}
	storetest.WantLink(t, s, storetest.Link("before"))
	if _, err := s.Lookup(t.Context(), "large"); !errors.Is(err, shortener.ErrNotFound) {
		t.Fatalf("Lookup of a link that was not written: %v, want ErrNotFound", err)
	}
	exec("PRAGMA max_page_count = 1000000")
	storetest.WantOutcomes(t, storetest.Insert(t, s, large), shortener.Inserted)
}

// TestInsertWithRefusedLinkWritesNothing needs a trigger that refuses a link, because the table accepts every URL
// that the service accepts.
func TestInsertWithRefusedLinkWritesNothing(t *testing.T) {
	t.Parallel()
	s := New(storetest.SQLite(t), storetest.Plain())
	_, err := s.db.Write.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON ranked_links
		WHEN new.code = 'bad' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Insert(t.Context(), []shortener.Link{storetest.Link("good"), storetest.Link("bad")})
	if !errors.Is(err, shortener.ErrRefused) || !errors.Is(err, shortener.ErrNotWritten) {
		t.Fatalf("Insert of a refused link: %v, want ErrRefused and ErrNotWritten", err)
	}
	if _, err := s.Lookup(t.Context(), "good"); !errors.Is(err, shortener.ErrNotFound) {
		t.Fatalf("Lookup of the other link of the call: %v, want ErrNotFound", err)
	}
}

// TestLookupEndsWithContextWhileWaitingForConnection occupies all reading connections, as if the disk did not
// answer.
func TestLookupEndsWithContextWhileWaitingForConnection(t *testing.T) {
	t.Parallel()
	s := New(storetest.SQLite(t), storetest.Plain())
	storetest.Insert(t, s, storetest.Link("there"))
	storetest.WantLink(t, s, storetest.Link("there"))
	var busy []*sql.Conn
	for range cap(s.turns) {
		conn, err := s.db.Read.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, conn)
	}
	var blocked sync.WaitGroup
	for range cap(s.turns) {
		blocked.Go(func() { storetest.WantLink(t, s, storetest.Link("there")) })
	}
	for s.db.Read.Stats().WaitCount < int64(cap(s.turns)) {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Lookup(ctx, "there"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lookup without a connection: %v, want DeadlineExceeded", err)
	}
	for _, conn := range busy {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	blocked.Wait()
}

// TestLookupDoesNotWaitForListQueries occupies all connections for scans, so that list queries wait. A look-up must not wait
// for the list queries.
func TestLookupDoesNotWaitForListQueries(t *testing.T) {
	t.Parallel()
	s := New(storetest.SQLite(t), storetest.Plain())
	storetest.Insert(t, s, storetest.Link("ranked"), storetest.Link("un-ranked"))
	for range s.db.Scan.Stats().MaxOpenConnections {
		conn, err := s.db.Scan.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var lists sync.WaitGroup
	list := func(owner int64) {
		if _, _, err := s.Newest(ctx, shortener.Selection{Owner: owner, Limit: 10}); !errors.Is(err, context.Canceled) {
			t.Errorf("a list of the owner %d does not wait for a connection for scans: %v", owner, err)
		}
	}
	const each = 20 // more than the connections for look-ups
	for range each {
		lists.Go(func() { list(0) })
		lists.Go(func() { list(1) })
		lists.Go(func() {
			for _, err := range s.Oldest(ctx) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the export does not wait for a connection for scans: %v", err)
				}
			}
		})
	}
	for s.db.Scan.Stats().WaitCount+s.db.Read.Stats().WaitCount < 3*each {
		runtime.Gosched()
	}
	storetest.WantLink(t, s, storetest.Link("ranked"))
	storetest.WantLink(t, s, storetest.Link("un-ranked"))
	cancel()
	lists.Wait()
}

// Newest reads codes from the table named creations. It fails if one of these codes has no link, or if the row at the
// rank of the code has another code.
func TestListOfNewestLinksFailsIfRowIsMissingOrHasAnotherCode(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]error{
		`UPDATE ranked_links SET code = 'other0' WHERE code = 'wrong0'`: shortener.ErrOtherOrder,
		`DELETE FROM ranked_links WHERE code = 'wrong0'`:                shortener.ErrNotFound,
	} {
		s := New(storetest.SQLite(t), storetest.Plain())
		storetest.Insert(t, s, storetest.Link("right0"), storetest.Link("wrong0"))
		if _, err := s.db.Write.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if links, _, err := s.Newest(t.Context(), shortener.Selection{Limit: 10}); !errors.Is(err, want) {
			t.Errorf("after %s, the list is %v, error %v; want %v", change, links, err, want)
		}
	}
}

// If the details of a row cannot be decoded, the row counts as another link, and the Insert writes the other links of its
// group.
func TestInsertWritesOtherLinksIfRowCannotBeDecoded(t *testing.T) {
	t.Parallel()
	s := New(storetest.SQLite(t), storetest.Plain())
	bad, keyed := storetest.Link("bad000"), storetest.WithIdempotencyKey("bad001", "1", 1)
	storetest.Insert(t, s, bad, keyed)
	if _, err := s.db.Write.ExecContext(t.Context(), `UPDATE ranked_links SET details = '[]'`); err != nil {
		t.Fatal(err)
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, bad, keyed, storetest.Link("good00")), shortener.Conflict, shortener.Repeated, shortener.Inserted)
}

// TestConcurrentWritesSucceedDuringBackup opens one database three times, as three processes would do. While
// 32 writers use the first two handles, the third handle takes backups. An Insert fails if it
// waits for the lock for more than five seconds.
func TestConcurrentWritesSucceedDuringBackup(t *testing.T) {
	t.Parallel()
	const writers, inserts, rows = 32, 8, 16
	folder := t.TempDir()
	path := filepath.Join(folder, "links.db")
	stores := []*Store{New(storetest.OpenSQLite(t, path), storetest.Plain()), New(storetest.OpenSQLite(t, path), storetest.Plain())}
	backup := storetest.OpenSQLite(t, path)

	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range inserts {
				links := make([]shortener.Link, rows)
				for j := range links {
					links[j] = storetest.Link(fmt.Sprintf("%d-%d-%d", w, i, j))
				}
				if _, err := stores[w%2].Insert(t.Context(), links); err != nil {
					t.Errorf("Insert of writer %d: %v", w, err)
				}
				if _, err := stores[w%2].Lookup(t.Context(), links[0].Code); err != nil {
					t.Errorf("Lookup of writer %d: %v", w, err)
				}
			}
		})
	}
	done, stop := context.WithCancel(t.Context())
	go func() {
		writing.Wait()
		stop()
	}()
	var backups []string
	for len(backups) == 0 || done.Err() == nil {
		file := filepath.Join(folder, fmt.Sprintf("backup%d.db", len(backups)))
		if _, err := backup.Write.ExecContext(t.Context(), "VACUUM INTO ?", file); err != nil {
			t.Error(err)
		}
		backups = append(backups, file)
	}
	writing.Wait()

	checkIntegrity(t, path)
	checkIntegrity(t, backups[len(backups)-1])
	count := 0
	for _, err := range stores[0].All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != writers*inserts*rows {
		t.Fatalf("All returned %d rows, want %d", count, writers*inserts*rows)
	}
}

func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	var result string
	err := storetest.OpenSQLite(t, path).Read.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&result)
	if err != nil || result != "ok" {
		t.Fatalf("the integrity check of %s returned %s, error %v", path, result, err)
	}
}

func benchStore(t testing.TB) shortener.Store { return New(storetest.SQLite(t), storetest.Plain()) }

func BenchmarkInsert(b *testing.B) { storetest.BenchInsert(b, benchStore) }

func BenchmarkLookup(b *testing.B) { storetest.BenchLookup(b, benchStore(b)) }

// BenchmarkNewest lists pages of a thousand links of all owners.
func BenchmarkNewest(b *testing.B) {
	const total, page = 20_000, 1000
	s := New(storetest.SQLite(b), storetest.Plain())
	for first := 0; first < total; first += page {
		links := make([]shortener.Link, page)
		for i := range links {
			links[i] = storetest.Link(fmt.Sprintf("%06d", first+i))
		}
		storetest.Insert(b, s, links...)
	}
	b.ReportAllocs()
	for b.Loop() {
		from := ""
		for {
			links, next, err := s.Newest(b.Context(), shortener.Selection{From: from, Limit: page})
			if err != nil || len(links) != page {
				b.Fatalf("%d links, %v", len(links), err)
			}
			if from = next; from == "" {
				break
			}
		}
	}
}
