package shortener

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
)

// TestSQLiteFull fills a database that may not grow, and then lets it grow.
func TestSQLiteFull(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := s.db.Write.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, s, keyLink("before"))
	exec("PRAGMA max_page_count = 1") // that is, what there is now
	large := keyLink("large")
	large.URL += strings.Repeat("x", 100_000)
	_, err := s.Insert(t.Context(), []Link{large})
	if !errors.Is(err, ErrStoreFull) || !errors.Is(err, ErrNotWritten) {
		t.Fatalf("Insert into a full database: %v", err)
	}
	wantLink(t, s, keyLink("before"))
	if _, err := s.Lookup(t.Context(), "large"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Lookup of what had no room: %v", err)
	}
	exec("PRAGMA max_page_count = 1000000")
	wantOutcomes(t, insert(t, s, large), Inserted)
}

// TestSQLiteRefusal needs a row that the table does not take: the rules for URLs leave none.
func TestSQLiteRefusal(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	_, err := s.db.Write.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON links
		WHEN new.code = 'bad' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Insert(t.Context(), []Link{keyLink("good"), keyLink("bad")})
	if !errors.Is(err, ErrRefused) || !errors.Is(err, ErrNotWritten) {
		t.Fatalf("Insert of a bad link: %v", err)
	}
	if _, err := s.Lookup(t.Context(), "good"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("the good link of a call that wrote nothing: %v", err)
	}
}

// TestSQLiteLookupsTakeTurns has all connections busy for ever, as with a disk that hangs, and
// one who asks for more.
func TestSQLiteLookupsTakeTurns(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	insert(t, s, keyLink("there"))
	wantLink(t, s, keyLink("there"))
	var busy []*sql.Conn
	for range cap(s.turns) {
		conn, err := s.db.Read.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, conn)
	}
	var stuck sync.WaitGroup
	for range cap(s.turns) {
		stuck.Go(func() { wantLink(t, s, keyLink("there")) })
	}
	for s.db.Read.Stats().WaitCount < int64(cap(s.turns)) {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Lookup(ctx, "there"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lookup without a turn: %v", err)
	}
	for _, conn := range busy {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	stuck.Wait()
}

// TestSQLiteWritersAndBackup has 32 writers in what might be two processes, while a
// third one takes backups.
func TestSQLiteWritersAndBackup(t *testing.T) {
	t.Parallel()
	const writers, inserts, rows = 32, 8, 16
	folder := t.TempDir()
	path := filepath.Join(folder, "links.db")
	stores := []*SQLiteStore{NewSQLiteStore(openSQLiteFile(t, path)), NewSQLiteStore(openSQLiteFile(t, path))}
	backup := openSQLiteFile(t, path)

	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range inserts {
				links := make([]Link, rows)
				for j := range links {
					links[j] = keyLink(fmt.Sprintf("%d-%d-%d", w, i, j))
				}
				if _, err := stores[w%2].Insert(t.Context(), links); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
				if _, err := stores[w%2].Lookup(t.Context(), links[0].Code); err != nil {
					t.Errorf("reader %d: %v", w, err)
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
		t.Fatalf("%d rows of %d", count, writers*inserts*rows)
	}
}

func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	var verdict string
	err := openSQLiteFile(t, path).Read.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict)
	if err != nil || verdict != "ok" {
		t.Fatalf("integrity of %s: %s, %v", path, verdict, err)
	}
}
