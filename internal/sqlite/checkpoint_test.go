package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDatabaseCloseRepeatsFailedCheckpoint closes a database whose last checkpoint failed, for example because
// the disk was full. Close runs one more checkpoint, which succeeds, so Close must return no error.
func TestDatabaseCloseRepeatsFailedCheckpoint(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.checkpoints.stop()
	<-db.checkpoints.done
	db.checkpoints.err = errors.New("the disk was full")
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// The disk may be full while a program reads a database whose log is long. The program needs no space if it runs no
// checkpoint. As soon as it writes, it must limit the log.
func TestDatabaseRunsNoCheckpointBeforeItsFirstCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	open := func() *DB {
		db, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		db.checkpoints.stop() // this test calls checkLog itself
		<-db.checkpoints.done
		return db
	}
	other, db := open(), open()
	exec := func(db *DB, statement string) {
		t.Helper()
		if _, err := db.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	wantMoved := func(when string, want bool) {
		t.Helper()
		if err := db.checkpoints.checkLog(t.Context()); err != nil {
			t.Fatal(err)
		}
		length, moved, err := checkpoint(t.Context(), db.checkpoints.own, "NOOP")
		if err != nil || length < walEnough || (moved > 0) != want {
			t.Errorf("%s, %d of %d pages of the log were moved (error %v), want some moved: %t", when, moved, length, err, want)
		}
	}
	exec(other, "CREATE TABLE t (b)")
	exec(other, fmt.Sprintf("INSERT INTO t VALUES (zeroblob(%d))", 2*walEnough*pageSize))
	var rows int
	if err := db.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v, want 1", rows, err)
	}
	if err := db.Ping(t.Context()); err != nil { // takes the write lock and changes nothing
		t.Fatal(err)
	}
	wantMoved("before the first commit", false)
	exec(db, "INSERT INTO t VALUES (1)")
	wantMoved("after the first commit", true)
}

// TestCheckpointerRestartsWALBeforeDiskIsFull simulates a disk that has room for a small number of pages, and writes many
// more pages. The checkpointer must restart the log before the log fills this room.
func TestCheckpointerRestartsWALBeforeDiskIsFull(t *testing.T) {
	t.Parallel()
	const free = 1000 // pages
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	db.checkpoints.stop() // this test calls checkLog itself
	<-db.checkpoints.done
	c := *db.checkpoints
	c.free = func() (int, error) { return free, nil }
	if _, err := db.Write.ExecContext(t.Context(), "CREATE TABLE t (b)"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := db.Write.ExecContext(t.Context(), "INSERT INTO t VALUES (zeroblob(200000))"); err != nil { // about 50 pages
			t.Fatal(err)
		}
		if err := c.checkLog(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() > free*pageSize {
		t.Errorf("the log has %d bytes (error %v), want at most %d", log.Size(), err, free*pageSize)
	}
	if got, err := freePages(path); err != nil || got <= 0 {
		t.Errorf("freePages = %d, %v, want the free space of the disk", got, err)
	}
}

// After OverwriteFreedPages and TruncateLog, deleted content must remain neither in the database file nor in the log,
// although connections are open. A transaction that reads an older state delays TruncateLog. Meanwhile, other connections
// can write.
func TestTruncateLogLeavesNoDeletedContent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	const deleted = "deleted content"
	long := strings.Repeat(deleted, 2*pageSize/len(deleted)) // needs overflow pages
	for _, text := range []string{deleted, long} {
		for _, statement := range []string{"CREATE TABLE IF NOT EXISTS t (a)", "INSERT INTO t VALUES ('kept'), ('" + text + "')"} {
			if _, err := db.Write.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.OverwriteFreedPages(t.Context()); err != nil {
		t.Fatal(err)
	}
	older, err := db.Read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := older.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != 4 {
		t.Fatalf("%d rows, %v, want 4", rows, err)
	}
	if _, err := db.Write.ExecContext(t.Context(), "DELETE FROM t WHERE a <> 'kept'"); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- db.TruncateLog(short) }()
	writes := 0
	for len(failed) == 0 { // a write that waits fails after busyTimeout, which is longer than the 2 s of TruncateLog
		if _, err := other.Write.ExecContext(t.Context(), "INSERT INTO t VALUES ('kept'); DELETE FROM t WHERE rowid = last_insert_rowid()"); err != nil {
			t.Fatal(err)
		}
		writes++
	}
	if err := <-failed; !errors.Is(err, ErrLogInUse) || writes < 5 {
		t.Errorf("TruncateLog: %v after %d writes of another connection, want ErrLogInUse and at least 5 writes", err, writes)
	}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		t.Errorf("the log is empty although a transaction reads from it: %v", err)
	}
	if err := older.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := db.TruncateLog(t.Context()); err != nil {
		t.Error(err)
	}
	for _, file := range []string{path, path + "-wal"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("deleted")); n > 0 {
			t.Errorf("%s contains the deleted text %d times", file, n)
		}
	}
	if err := db.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d rows, %v, want 2", rows, err)
	}
}
