// Package sqlite opens SQLite databases with the settings that Keypool needs: a
// write-ahead log, a sync to disk at every commit, one writing connection and several reading
// connections.
//
// SQLite allows one writer at a time. The writers of a process share one connection, so they wait
// in package database/sql until the connection is free or their contexts end. With several writing
// connections, the writers would poll for the lock of the file, and some of them would time out. A
// reader sees a snapshot. Readers and writers do not wait for each other.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"keypool/internal/diskfile"
)

const (
	// busyTimeout is how long a statement waits inside SQLite for another process, such as an audit
	// or a manual delete. SQLite does not check the context during this wait, so a cancelled
	// context may have its effect only after busyTimeout.
	busyTimeout = 5 * time.Second
	// Page caches, in KiB and per connection. SQLite allocates the memory of a page when it caches the page. A page
	// with its header is slightly larger than 4 KiB. The allocator rounds this size up to a power of two, so a cached
	// page needs 8 KiB. Links are stored in sequence, so the writer needs few pages. The readers need the inner pages
	// of the tree. The operating system caches the other pages. mmap is off, because mapped pages count as resident
	// memory and could exceed a memory limit.
	writeCache = 2 << 10
	readCache  = 1 << 10
	// A checkpoint moves the pages of the log into the database file. walKept is the size, in bytes, to
	// which SQLite truncates the log file after a checkpoint. The log grows during a long read. Without
	// this setting, the log file never shrinks.
	walKept = 64 << 20
	// scanConns is the number of connections for queries that may read many rows. An export needs two connections at a
	// time.
	scanConns = 2
)

// DB is one open database file.
type DB struct {
	// Write has exactly one connection. Its transactions take the write lock when they begin, so no
	// later statement of a transaction fails because of the lock.
	Write *sql.DB
	// Read has several connections, on which writes fail. It is for queries that read few rows.
	Read *sql.DB
	// Scan has few connections, on which writes fail. It is for queries that may read many rows. Such queries never
	// occupy the connections of Read.
	Scan *sql.DB

	checkpoints *checkpointer
	guard       *guard
	anchor      *anchor
}

// ErrNotDatabase reports that a path leads to something other than a SQLite database.
var ErrNotDatabase = errors.New("not a SQLite database")

// ErrNoFile reports that a database file is missing although its log exists. SQLite would delete the log if it created a new
// file. The log may have the newest commits of a file that was moved.
var ErrNoFile = errors.New("the database file is missing, but its log exists")

// Open opens the database at path. It creates the file and its folder if they are missing. Only the owner can read a
// file that Open creates, because the key ledger keeps a secret in it. If root creates the file, it belongs to the owner of
// the folder, so that a service of this user can use it. If another process creates or recovers the same
// database, Open waits for that process, at most until ctx ends. The errors of Open name the path. Open fails with these
// errors:
//
//   - ErrNotDatabase, if path leads to something other than a regular file, leads to a file of another format, or is a
//     symbolic link to a missing file
//   - ErrNoFile, if the file is missing but its log or the index of the log exists
//   - ErrSeveralNames, if the file has several hard links or is itself mounted
func Open(ctx context.Context, path string) (*DB, error) {
	files, err := locate(path)
	if err != nil {
		return nil, err
	}
	write, err := connect(files, url.Values{
		"_txlock":       {"immediate"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_pragma": {
			cacheSize(writeCache),
			fmt.Sprintf("journal_size_limit(%d)", walKept),
			fmt.Sprintf("wal_autocheckpoint(%d)", walBound),
			"secure_delete(fast)", // overwrite deleted rows with zeros, but not pages that become free (see OverwriteFreedPages)
		},
	}, 1)
	if err != nil {
		return nil, err
	}
	read, err := connectReaders(files, max(4, runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	scan, err := connectReaders(files, scanConns)
	if err != nil {
		return nil, errors.Join(err, read.Close(), write.Close())
	}
	db := &DB{Write: write, Read: read, Scan: scan, guard: files}
	// The first connection enables the write-ahead log. The statement that enables the log ignores busyTimeout,
	// and fails while another process runs the same statement. Therefore whenFree repeats the statement.
	if err := whenFree(ctx, func() error { return openLog(ctx, write) }); err != nil {
		if hasCode(err, sqlite3.SQLITE_NOTADB) {
			err = fmt.Errorf("%w: %w", ErrNotDatabase, err)
		}
		if hasCode(err, sqlite3.SQLITE_CANTOPEN) || hasCode(err, sqlite3.SQLITE_READONLY) {
			err = fmt.Errorf("%w: SQLite must be able to write to the file and to its folder", err)
		}
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", files.path, err), db.Close())
	}
	db.anchor, err = openAnchor(ctx, files)
	if err == nil {
		err = files.remember()
	}
	if err == nil {
		db.checkpoints, err = startCheckpointer(files, write)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openLog connects and runs a first transaction, in which SQLite opens the write-ahead log.
func openLog(ctx context.Context, db rowQuerier) error {
	var tables int
	return db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables)
}

// rowQuerier is a connection or a pool of connections.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Path returns the absolute path of the database file, without symbolic links.
func (db *DB) Path() string { return db.guard.path }

// Ping takes the write lock and releases it. It fails with ErrMoved if the files of the database are not at its path,
// or if the database file became smaller.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.guard.check(); err != nil {
		return err
	}
	tx, err := db.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return tx.Rollback()
}

// OverwriteFreedPages changes a setting of the connection of Write: each later transaction that frees a page writes
// zeros over the content of the page. If package database/sql replaces the connection, the setting is lost. A row that is
// longer than about 4 KiB has pages of its own. By default, such pages keep their content after the row is deleted,
// because the removal of a large table would otherwise write as much as the table occupies.
func (db *DB) OverwriteFreedPages(ctx context.Context) error {
	if _, err := db.Write.ExecContext(ctx, `PRAGMA secure_delete = ON`); err != nil {
		return fmt.Errorf("make the database overwrite freed pages: %w", err)
	}
	return nil
}

// Close closes all connections. The last connection to close moves the log into the database file and then deletes the
// log. Only a connection that can write does this. The anchor can write (see type anchor), so Close closes the anchor
// last. If the files of the database are not at its path, the anchor could delete the log of another database. If the
// database file was overwritten, the anchor would move the log into the damaged file. In both cases, Close leaves the
// anchor open and fails with ErrMoved.
func (db *DB) Close() error {
	var err error
	if db.checkpoints != nil { // nil if Open failed
		err = db.checkpoints.close()
		db.checkpoints = nil
	}
	err = errors.Join(err, db.Scan.Close(), db.Read.Close(), db.Write.Close())
	if db.anchor == nil { // Open failed
		return err
	}
	if moved := db.guard.check(); moved != nil {
		return errors.Join(err, moved)
	}
	return errors.Join(err, db.anchor.close())
}

// locate finds or creates the file of the database at path, and returns its guard. The guard checks nothing before the
// first call of its method remember.
func locate(path string) (*guard, error) {
	name, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("make the path of the database absolute: %w", err)
	}
	if path, err = create(name); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open the database %s: %w: it is no regular file", path, ErrNotDatabase)
	}
	return &guard{path: path, name: name}, requireOneName(path, info)
}

// create makes sure that a file exists at path, which is absolute. It returns the path without symbolic links, because SQLite
// keeps the log beside the file to which a symbolic link leads.
func create(path string) (string, error) {
	if err := RequireFile(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("create the folder of the database %s: %w", path, err)
	}
	// Open the file only if it does not exist yet. When a process closes a descriptor of a file, POSIX drops all locks
	// that the process has on the file. Therefore an open and a close of a database file that this process already uses
	// would drop the locks of the database.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		file, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) { // for example because a volume is not mounted
			return "", fmt.Errorf("open the database %s: %w: the symbolic link leads to a missing file", path, ErrNotDatabase)
		}
		if err != nil {
			return "", fmt.Errorf("follow the link to the database: %w", err)
		}
		return file, nil
	}
	if err == nil {
		err = errors.Join(diskfile.GiveToOwnerOfFolder(f), f.Close())
	}
	if err != nil {
		return "", fmt.Errorf("create the database: %w", err)
	}
	return path, nil
}

// RequireFile returns ErrNoFile if the file of the database at path is missing, but its log or the index of the log exists.
func RequireFile(path string) error {
	// Look for the log and its index first. Otherwise another process could create the file and its log after
	// RequireFile has looked for the file, and RequireFile would report a missing file.
	for _, log := range []string{path + "-wal", path + "-shm"} {
		if _, err := os.Lstat(log); err != nil {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("open the database %s: %w: %s", path, ErrNoFile, log)
		}
	}
	return nil
}

func connect(files *guard, params url.Values, conns int) (*sql.DB, error) {
	if !params.Has("_busy_timeout") {
		params.Set("_busy_timeout", strconv.FormatInt(busyTimeout.Milliseconds(), 10))
	}
	params.Set("mode", "rw") // fails if the file does not exist; create has created it
	params.Set("_foreign_keys", "on")
	params.Set("_dqs", "false")     // a misspelt "column" is an error, not a string literal
	params.Set("_error_rc", "true") // the message of an error describes this error, and not an earlier one
	dsn := url.URL{Scheme: "file", Path: files.path, RawQuery: params.Encode()}
	to, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", files.path, err)
	}
	db := sql.OpenDB(connector{to, files})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// connectReaders opens connections on which writes fail.
func connectReaders(files *guard, conns int) (*sql.DB, error) {
	return connect(files, url.Values{"_query_only": {"on"}, "_pragma": {cacheSize(readCache)}}, conns)
}

func cacheSize(kib int) string { return fmt.Sprintf("cache_size(-%d)", kib) }

// whenFree repeats f while another connection or process locks the database.
func whenFree(ctx context.Context, f func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if !hasCode(err, sqlite3.SQLITE_BUSY) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func hasCode(err error, code int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == code
}
