package sqlitestore

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"keypool/internal/sqlite"
	"keypool/shortener"
)

// notWritten wraps the error of a transaction that was rolled back. Either the transaction did not reach its
// commit, or its commit failed with one of the errors for which commitFailed knows the outcome.
func notWritten(err error) error {
	switch code := resultCode(err); code & 0xff {
	case sqlite3.SQLITE_CONSTRAINT:
		if code == sqlite3.SQLITE_CONSTRAINT_COMMITHOOK { // the commit hook of package sqlite rejected the commit
			err = fmt.Errorf("%w: %w", sqlite.ErrMoved, err)
		} else {
			err = fmt.Errorf("%w: %w", shortener.ErrRefused, err)
		}
	case sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		err = fmt.Errorf("%w: %w", shortener.ErrRefused, err)
	case sqlite3.SQLITE_FULL:
		err = fmt.Errorf("%w: %w", shortener.ErrStoreFull, err)
	case sqlite3.SQLITE_IOERR:
		if code == sqlite3.SQLITE_IOERR_SHMSIZE { // no space for the index of the write-ahead log
			err = fmt.Errorf("%w: %w", shortener.ErrStoreFull, err)
		}
	}
	return fmt.Errorf("insert links: %w: %w", shortener.ErrNotWritten, err)
}

// commitFailed wraps the error of a commit. If the disk is full, the lock is not available or the files
// were moved, SQLite or the driver has rolled the transaction back. After any other error, such as a failed
// sync, the outcome is unknown: the whole transaction may be in the write-ahead log, and the recovery after
// a crash may apply it.
func commitFailed(err error) error {
	switch resultCode(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT:
		return notWritten(err)
	}
	return fmt.Errorf("commit links: %w", err)
}

// resultCode returns the extended result code of err (https://www.sqlite.org/rescode.html),
// or 0 when err is not an error of SQLite.
func resultCode(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
