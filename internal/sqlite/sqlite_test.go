package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/internal/sqlite"
)

// lockVariable is an environment variable. If it names a file, the test binary locks the file, prints a
// line and holds the lock until it is killed.
const lockVariable = "KEYPOOL_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockVariable); path != "" {
		_, err := sqlite.Lock(context.Background(), path)
		fmt.Println("locked", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // blocks: the parent sends nothing and kills this process
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func exec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestSQLiteOpenAppliesSettings(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	tests := []struct {
		handle *sql.DB
		pragma string
		want   string
	}{
		{db.Write, "journal_mode", "wal"},
		{db.Write, "synchronous", "2"}, // FULL
		{db.Write, "foreign_keys", "1"},
		{db.Write, "busy_timeout", "5000"},
		{db.Write, "query_only", "0"},
		{db.Write, "secure_delete", "2"}, // FAST
		{db.Read, "journal_mode", "wal"},
		{db.Read, "foreign_keys", "1"},
		{db.Read, "busy_timeout", "5000"},
		{db.Read, "query_only", "1"},
	}
	for _, tt := range tests {
		var got string
		if err := tt.handle.QueryRowContext(t.Context(), "PRAGMA "+tt.pragma).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("%s is %s, want %s", tt.pragma, got, tt.want)
		}
	}
	if _, err := db.Scan.ExecContext(t.Context(), "CREATE TABLE t (n)"); err == nil {
		t.Error("a write on a connection for scans gave no error")
	}
	if n := db.Write.Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d writing connections, want 1", n)
	}
	if _, err := db.Read.ExecContext(t.Context(), "CREATE TABLE t (n)"); err == nil {
		t.Error("a write on a reading connection gave no error")
	}
}

func TestSQLiteOpenCreatesFolderAndPrivateFile(t *testing.T) {
	t.Parallel()
	// Characters that are special in a URI must be ordinary in a path.
	path := filepath.Join(t.TempDir(), "new", "odd %41?mode=memory#name.db")
	db := open(t, path)
	exec(t, db.Write, "CREATE TABLE t (n)")
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, mode)
		}
	}
}

// SQLite keeps the log beside the file to which a symbolic link leads.
func TestSQLiteOpenFollowsSymbolicLink(t *testing.T) {
	t.Parallel()
	target, link := filepath.Join(t.TempDir(), "target.db"), filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if db, err := sqlite.Open(t.Context(), link); !errors.Is(err, sqlite.ErrNotDatabase) || !strings.Contains(err.Error(), link) {
		t.Errorf("Open of a link to a missing file: %v, %v, want ErrNotDatabase with the path", db, err)
	}
	exec(t, open(t, target).Write, `CREATE TABLE t (a INTEGER)`)
	db := open(t, link)
	exec(t, db.Write, `INSERT INTO t VALUES (1)`)
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v", err)
	}
}

func TestSQLiteOpenErrorContainsPath(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // without its check of the file type, Open of /dev/null would wait until ctx ends
	defer cancel()
	folder := t.TempDir()
	file := filepath.Join(folder, "plain.txt")
	if err := os.WriteFile(file, []byte("this is no database, but it is long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, file, filepath.Join(file, "below.db"), os.DevNull} {
		db, err := sqlite.Open(ctx, path)
		switch {
		case err == nil:
			t.Errorf("%s could be opened: %v", path, db.Close())
		case !strings.Contains(err.Error(), path), errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Open of %s fails with %v, want an error at once that names the path", path, err)
		}
	}
}

func TestConcurrentSQLiteOpenCallsSucceed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			db, err := sqlite.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestSQLiteReadersDoNotWaitForWriter reads during an open write transaction, and must get the rows as
// they were before the transaction. A second writer uses another DB for the same file. It must succeed
// after the transaction has ended.
func TestSQLiteReadersDoNotWaitForWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, other := open(t, path), open(t, path)
	exec(t, db.Write, "CREATE TABLE t (n)")
	tx, err := db.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != 0 {
		t.Errorf("a reader gets %d uncommitted rows, error %v; want 0 rows", n, err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := other.Write.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO t VALUES (2)")
		written <- err
	}()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("the second writer failed: %v", err)
	}
}

func TestFileLockExcludesOtherCallers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := sqlite.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Lock(cancelled, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock of a taken lock: error %v, want context.Canceled", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = sqlite.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestFileLockEndsWhenProcessEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	holder := osexec.Command(os.Args[0])
	holder.Env = append(os.Environ(), lockVariable+"="+path)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "locked <nil>\n" {
		t.Fatalf("the holder printed %q, error %v", line, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Lock(cancelled, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock of another process's lock: error %v, want context.Canceled", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	unlock, err := sqlite.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unlock(), ignoreKilled(holder.Wait())); err != nil {
		t.Fatal(err)
	}
}

// ignoreKilled drops the error of a process that the test killed.
func ignoreKilled(err error) error {
	var exit *osexec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// TestWALIsReusedAfterCheckpoint writes a log of more than walRestart pages, so that the checkpointer restarts the log.
// The log has fewer than walBound pages, so that no commit runs a checkpoint. Then the test writes until the log stops
// growing.
func TestWALIsReusedAfterCheckpoint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path)
	exec(t, db.Write, "CREATE TABLE t (b)")
	const size = 80_000_000
	exec(t, db.Write, fmt.Sprintf("INSERT INTO t VALUES (zeroblob(%d))", size))
	deadline := time.After(2 * time.Minute)
	for tick := time.Tick(10 * time.Millisecond); ; {
		before := fileSize(t, path+"-wal")
		exec(t, db.Write, "INSERT INTO t VALUES (zeroblob(8000))")
		if fileSize(t, path+"-wal") <= before {
			break
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("the log has grown to %d bytes", before)
		}
	}
	if n := fileSize(t, path); n < size {
		t.Errorf("SQLite reused the log when the database file had only %d bytes", n)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
