// Package sqlite opens the embedded database in the one way that Keypool uses it:
// write-ahead log, every commit synced to disk, a single writing connection and
// several reading ones beside it.
//
// SQLite has one writer at a time whatever the program does. With a single
// writing connection the others queue in Go, in order and under their contexts,
// instead of polling for the file lock until some of them time out. Readers see a
// snapshot and neither wait for the writer nor hold it up.
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
	// busyTimeout is how long a statement waits inside SQLite for another process
	// (an audit, a delete by hand). It also bounds how late a cancelled context is
	// noticed, since SQLite does not look at it while it waits.
	busyTimeout = 5 * time.Second
	// Page caches, in KiB and per connection; memory is only taken when it is used.
	// There is no mmap: mapped pages would count as resident and defeat any budget.
	writeCache = 8 << 10
	readCache  = 2 << 10
	// walKept is how much of the log file is kept after a checkpoint, in bytes; a long
	// read lets it grow, and it would never shrink by itself.
	walKept = 64 << 20
)

// DB is one open database file.
type DB struct {
	// Write has exactly one connection. Its transactions take the write lock when they
	// begin, so none of them fails half-way for want of it.
	Write *sql.DB
	// Read has several connections, which refuse to write.
	Read *sql.DB

	checkpoints *checkpointer
}

// Open opens the database at path and creates it, with its folder, where it is
// missing. The file is readable by its owner alone, because the key ledger keeps a
// secret in it. Open blocks while another process creates or recovers the
// same database, at most as long as ctx allows. Its errors name the path.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := create(path)
	if err != nil {
		return nil, err
	}
	write, err := connect(path, url.Values{
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
	read, err := connect(path, url.Values{
		"_query_only": {"on"},
		"_pragma":     {cacheSize(readCache)},
	}, max(4, runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	db := &DB{Write: write, Read: read}
	// The first connection turns the log on, which does not wait for its turn when
	// another process is at it too.
	if err := whenFree(ctx, func() error { return write.PingContext(ctx) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", path, err), db.Close())
	}
	if db.checkpoints, err = startCheckpointer(path, write); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Close closes all connections. The writer goes last, because the last connection
// to leave moves the log into the database file, which a reader must not do.
func (db *DB) Close() error {
	var err error
	if db.checkpoints != nil { // nil when Open came to nothing
		err = db.checkpoints.close()
		db.checkpoints = nil
	}
	return errors.Join(err, db.Read.Close(), db.Write.Close())
}

// create makes sure that a file is at path, and gives its absolute path.
func create(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("the path of the database: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("the folder of the database %s: %w", path, err)
	}
	// Only a file that was not there is touched: to close any descriptor of an open
	// database drops the locks that this process holds on it.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
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

func connect(path string, params url.Values, conns int) (*sql.DB, error) {
	if !params.Has("_busy_timeout") {
		params.Set("_busy_timeout", strconv.FormatInt(busyTimeout.Milliseconds(), 10))
	}
	params.Set("_foreign_keys", "on")
	params.Set("_dqs", "false")     // a misspelt "column" is an error, not a string
	params.Set("_error_rc", "true") // no stale message beside the error code
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}
	connector, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func cacheSize(kib int) string { return fmt.Sprintf("cache_size(-%d)", kib) }

// whenFree repeats f as long as the database is locked by somebody else.
func whenFree(ctx context.Context, f func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if !busy(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
