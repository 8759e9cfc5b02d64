package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"keypool/internal/sqlite"
)

// While a file of a database is not at its path, no commit and no ping may succeed, and no connection may be opened. When
// the file is back, the database must work again.
func TestNoCommitSucceedsWhileDatabaseFileIsMissing(t *testing.T) {
	t.Parallel()
	for name, suffix := range map[string]string{"file": "", "log": "-wal", "index of the log": "-shm"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data.db")
			db := open(t, path)
			insert := func() error {
				_, err := db.Write.ExecContext(t.Context(), `INSERT INTO t VALUES (1)`)
				return err
			}
			if _, err := db.Write.ExecContext(t.Context(), `CREATE TABLE t (a INTEGER)`); err != nil {
				t.Fatal(err)
			}
			for fault, harm := range map[string]func(from, to string) error{"moved": os.Rename, "deleted": deleted, "replaced": replaced} {
				kept := filepath.Join(t.TempDir(), "kept")
				if err := harm(path+suffix, kept); err != nil {
					t.Fatal(err)
				}
				if err := insert(); err == nil {
					t.Errorf("%s: an insert succeeded", fault)
				}
				if err := db.Ping(t.Context()); !errors.Is(err, sqlite.ErrMoved) {
					t.Errorf("%s: Ping = %v, want ErrMoved", fault, err)
				}
				if err := db.Read.PingContext(t.Context()); !errors.Is(err, sqlite.ErrMoved) {
					t.Errorf("%s: a new connection: %v, want ErrMoved", fault, err)
				}
				if err := os.Rename(kept, path+suffix); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(insert(), db.Ping(t.Context())); err != nil {
					t.Errorf("%s and moved back: an insert or a ping failed: %v", fault, err)
				}
			}
			var rows int
			if err := db.Read.QueryRowContext(t.Context(), `SELECT count(*) FROM t`).Scan(&rows); err != nil || rows != 3 {
				t.Errorf("the table has %d rows, error %v, want 3", rows, err)
			}
		})
	}
}

// deleted deletes a file and keeps its content at kept.
func deleted(path, kept string) error { return errors.Join(os.Link(path, kept), os.Remove(path)) }

// replaced puts a copy in the place of a file.
func replaced(path, kept string) error {
	text, err := os.ReadFile(path)
	return errors.Join(err, os.Rename(path, kept), os.WriteFile(path, text, 0o600))
}

// If the database file was moved and its log was not, the log has the newest commits. Open must fail, and must not delete
// the log.
func TestOpenKeepsLogOfMissingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data.db")
	db := open(t, path)
	exec(t, db.Write, `CREATE TABLE t (a INTEGER)`)
	exec(t, db.Write, `INSERT INTO t VALUES (1)`)
	for _, missing := range [][]string{{""}, {"", "-wal"}, {"", "-shm"}} { // the log or its index shows that the file is missing
		kept := filepath.Join(t.TempDir(), "kept")
		for _, suffix := range missing {
			if err := os.Rename(path+suffix, kept+suffix); err != nil {
				t.Fatal(err)
			}
		}
		if other, err := sqlite.Open(t.Context(), path); !errors.Is(err, sqlite.ErrNoFile) {
			t.Errorf("Open = %v, %v, want ErrNoFile", other, err)
		}
		for _, suffix := range missing {
			if err := os.Rename(kept+suffix, path+suffix); err != nil {
				t.Fatal(err)
			}
		}
	}
	var rows int
	if err := db.Read.QueryRowContext(t.Context(), `SELECT count(*) FROM t`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("the table has %d rows, error %v, want 1", rows, err)
	}
}

// The database is open through a symbolic link. While the link leads to no file or to another file, no commit may
// succeed, because the next start would not find the commit.
func TestNoCommitSucceedsWhileSymbolicLinkLeadsToOtherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "data.db"), filepath.Join(dir, "link.db")
	exec(t, open(t, filepath.Join(dir, "other.db")).Write, `CREATE TABLE t (a INTEGER)`)
	exec(t, open(t, path).Write, `CREATE TABLE t (a INTEGER)`)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	db := open(t, link)
	exec(t, db.Write, `INSERT INTO t VALUES (1)`)
	for _, target := range []string{"", filepath.Join(dir, "other.db")} {
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if target != "" {
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.Write.ExecContext(t.Context(), `INSERT INTO t VALUES (2)`); err == nil {
			t.Errorf("an insert succeeded while the link leads to %q", target)
		}
		if err := db.Ping(t.Context()); !errors.Is(err, sqlite.ErrMoved) {
			t.Errorf("Ping while the link leads to %q: %v, want ErrMoved", target, err)
		}
	}
	if err := errors.Join(os.Remove(link), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Write, `INSERT INTO t VALUES (3)`)
}

// A connection may end when the context of a statement ends. SQLite must keep the log even if all connections that
// ran statements have ended.
func TestWALIsKeptWhileDatabaseIsOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data.db")
	db := open(t, path)
	db.Write.SetMaxIdleConns(-1) // ends the connection after each statement
	db.Read.SetMaxIdleConns(-1)
	exec(t, db.Write, `CREATE TABLE t (a INTEGER)`)
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v", err)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the log: %v", err)
	}
}

// Close must not delete the log of another database at the same path.
func TestCloseKeepsWALOfNewDatabaseAtSamePath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "data.db")
	old, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sqlite.CloseAnchor(old) }) // runs after the new database is closed, when no log exists
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if err := old.Close(); !errors.Is(err, sqlite.ErrMoved) {
		t.Errorf("Close = %v, want ErrMoved", err)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the log of the new database: %v", err)
	}
}

// A program that copies a backup over the database file first makes the file smaller, even if the backup is larger than
// the database file. So no commit may succeed after the file became smaller, whatever its size is later.
func TestNoCommitSucceedsAfterDatabaseFileBecameSmaller(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data.db")
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sqlite.CloseAnchor(db) })
	exec(t, db.Write, `CREATE TABLE t (a INTEGER)`)
	if err := db.TruncateLog(t.Context()); err != nil { // moves the table into the file
		t.Fatal(err)
	}
	if err := db.Ping(t.Context()); err != nil { // the guard records the size of the file
		t.Fatal(err)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, file.Size()-1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Write.ExecContext(t.Context(), `INSERT INTO t VALUES (1)`); err == nil {
		t.Error("an insert succeeded")
	}
	if err := os.Truncate(path, 2*file.Size()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Write.ExecContext(t.Context(), `INSERT INTO t VALUES (1)`); err == nil {
		t.Error("an insert succeeded after the file became larger again")
	}
	if err := db.Ping(t.Context()); !errors.Is(err, sqlite.ErrMoved) {
		t.Errorf("Ping = %v, want ErrMoved", err)
	}
	if err := db.Close(); !errors.Is(err, sqlite.ErrMoved) {
		t.Errorf("Close = %v, want ErrMoved", err)
	}
}
