package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// Lock locks the file at path exclusively. It blocks until the lock is free or ctx ends. It creates
// the file, which stays empty and is not removed. The operating system releases the lock when the
// process ends, even if the process is killed. The caller must call unlock exactly once.
//
// Lock is for work that spans several transactions. For a single transaction, the lock of the
// database is sufficient.
func Lock(ctx context.Context, path string) (unlock func() error, err error) {
	path, err = create(path)
	if err != nil {
		return nil, err
	}
	// The lock is an open write transaction on an empty database. The transaction writes nothing.
	db, err := connect(&guard{path: path}, url.Values{"_txlock": {"exclusive"}, "_busy_timeout": {"0"}}, 1)
	if err != nil {
		return nil, err
	}
	var tx *sql.Tx
	err = whenFree(ctx, func() (err error) {
		// The transaction outlives ctx: it ends with unlock.
		tx, err = db.BeginTx(context.WithoutCancel(ctx), nil)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), db.Close())
	}
	return func() error { return errors.Join(tx.Rollback(), db.Close()) }, nil
}

// Path returns the path of the file that db has open, or "" for a database in memory.
func Path(ctx context.Context, db *sql.DB) (string, error) {
	var path string
	err := db.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	if err != nil {
		return "", fmt.Errorf("read the path of the database: %w", err)
	}
	return path, nil
}
