// Package sqlite opens SQLite databases with the settings that Keypool needs: a
// write-ahead log, a sync to disk at every commit, one writing connection and several reading
// connections.
//
// SQLite allows one writer at a time. With a single writing connection, the other writers wait in
// package database/sql until the connection is free or their contexts end. With several writing
// connections, the writers would poll for the file lock, and some of them would time out. A reader
// sees a snapshot. A reader neither waits for the writer nor delays the writer.
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
)

const (
	// busyTimeout is how long a statement waits inside SQLite for another process, such as an
	// audit or a manual delete. SQLite does not check the context while it waits, so this is
	// also the longest delay before a cancelled context has an effect.
	busyTimeout = 5 * time.Second
	// Page caches, in KiB and per connection. SQLite allocates the memory only when it uses it. A page
	// then needs 8 KiB, because it is slightly larger than 4 KiB with its header, and the allocator rounds
	// up to a power of two. Links are stored in sequence, so the writer needs few pages. The readers need
	// the inner pages of the tree; the operating system has the others.
	// mmap is off: mapped pages count as resident memory and would exceed any memory limit.
	writeCache = 2 << 10
	readCache  = 1 << 10
	// walKept is the size, in bytes, to which SQLite truncates the log file after a checkpoint.
	// A long read lets the log grow, and without this setting the file never shrinks.
	walKept = 64 << 20
	// scanConns is the number of connections for queries that may read many rows. An export needs two at a time.
	scanConns = 2
)

// DB is one open database file.
type DB struct {
	// Write has exactly one connection. Its transactions take the write lock when they begin,
	// so none of them fails later because the lock is taken.
	Write *sql.DB
	// Read has several connections, on which writes fail. It is for queries that read few rows.
	Read *sql.DB
	// Scan has few connections, on which writes fail. It is for queries that may read many rows. Such queries never occupy
	// the connections of Read.
	Scan *sql.DB

	checkpoints *checkpointer
	guard       *guard
	anchor      *anchor
}

// ErrNotDatabase reports that a path leads to a directory, or to a file that is no SQLite database.
var ErrNotDatabase = errors.New("not a SQLite database")

// Open opens the database at path. It creates the file and its folder if they are missing. Only
// the owner can read the file, because the key ledger keeps a secret in it. Open blocks while
// another process creates or recovers the same database, until ctx ends. Its errors name the
// path. It fails with ErrNotDatabase if there is something else at path.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := create(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open the database %s: %w: it is no regular file", path, ErrNotDatabase)
	}
	files := &guard{path: path}
	write, err := connect(files, url.Values{
		"_txlock":       {"immediate"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_pragma": {
			cacheSize(writeCache),
			fmt.Sprintf("journal_size_limit(%d)", walKept),
			fmt.Sprintf("wal_autocheckpoint(%d)", walBound),
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
	// The first connection enables write-ahead logging. That statement ignores the busy
	// timeout, so whenFree repeats it while another process runs the same statement.
	if err := whenFree(ctx, func() error { return openLog(ctx, write) }); err != nil {
		if hasCode(err, sqlite3.SQLITE_NOTADB) {
			err = fmt.Errorf("%w: %w", ErrNotDatabase, err)
		}
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", path, err), db.Close())
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

// openLog connects and opens the write-ahead log, which happens in the first transaction.
func openLog(ctx context.Context, db rowQuerier) error {
	var tables int
	return db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables)
}

// rowQuerier is a connection or a pool of connections.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Ping takes the write lock and releases it. It fails with ErrMoved if the files of the database are no longer at its path.
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

// Close closes all connections. The anchor is last, because the last connection to close moves
// the log into the database file, and a reader must not write. That connection also deletes the log at its path. Therefore Close
// leaves the anchor open, and fails with ErrMoved, if there may be another database at the path.
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

// create makes sure that a file exists at path. It returns the absolute path, without symbolic links, because SQLite keeps the log
// beside the file to which a link leads.
func create(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("make the path of the database absolute: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("create the folder of the database %s: %w", path, err)
	}
	// create opens only a file that it creates itself. POSIX drops all locks of a process on a file
	// when the process closes any descriptor of the file. If create opened an existing database, it
	// could drop the locks of that database.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", fmt.Errorf("follow the link to the database: %w", err)
		}
		return path, nil
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return "", fmt.Errorf("create the database: %w", err)
	}
	return path, nil
}

func connect(files *guard, params url.Values, conns int) (*sql.DB, error) {
	if !params.Has("_busy_timeout") {
		params.Set("_busy_timeout", strconv.FormatInt(busyTimeout.Milliseconds(), 10))
	}
	params.Set("mode", "rw") // create has created the file
	params.Set("_foreign_keys", "on")
	params.Set("_dqs", "false")     // a misspelt "column" is an error, not a string literal
	params.Set("_error_rc", "true") // errors carry the message of their own code, not an earlier one
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
