package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// Lock takes the exclusive lock that the file at path stands for, and blocks until
// it is free or ctx ends. The file is created and left behind, empty. The lock is
// one of the operating system's, so it goes with the process, also with a killed
// one. The caller must call unlock exactly once.
//
// It is for work that spans several transactions; a single one needs no lock but
// the database's own.
func Lock(ctx context.Context, path string) (unlock func() error, err error) {
	path, err = create(path)
	if err != nil {
		return nil, err
	}
	// An empty database with an open write transaction, in which nothing is written.
	db, err := connect(path, url.Values{"_txlock": {"exclusive"}, "_busy_timeout": {"0"}}, 1)
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

// Path is the file that db has open, empty for a database in memory.
func Path(ctx context.Context, db *sql.DB) (string, error) {
	var path string
	err := db.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	if err != nil {
		return "", fmt.Errorf("the path of the database: %w", err)
	}
	return path, nil
}
