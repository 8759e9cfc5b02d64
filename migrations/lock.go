package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/internal/sqlite"
)

// This package does not use the locks of goose. Goose looks for pending migrations and creates its
// table before it takes its lock, and it polls once per second. The locks in this file are released
// when the process that holds them ends for any reason.

func lock(ctx context.Context, db *sql.DB, engine Engine) (unlock func() error, err error) {
	if engine == SQLite {
		return lockSQLite(ctx, db)
	}
	return lockPostgres(ctx, db)
}

// lockSQLite locks a separate file next to the database, because the lock of the database ends with
// each transaction.
func lockSQLite(ctx context.Context, db *sql.DB) (func() error, error) {
	path, err := sqlite.Path(ctx, db)
	if err != nil {
		return nil, err
	}
	if path == "" { // the database is in memory, and no other process can use it
		return func() error { return nil }, nil
	}
	return sqlite.Lock(ctx, path+"-migrate")
}

// lockPostgres takes a session-level advisory lock for the schema. It polls and does not wait in the
// server. A waiting statement would be an open transaction, and CREATE INDEX CONCURRENTLY waits for
// open transactions. So the two statements would deadlock.
func lockPostgres(ctx context.Context, db *sql.DB) (_ func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database for the migration: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for locked := false; ; {
		err := conn.QueryRowContext(ctx,
			`SELECT pg_try_advisory_lock(hashtext('keypool migrations'), hashtext(current_schema()))`).Scan(&locked)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the schema: %w", err), conn.Close())
		}
		if locked {
			return func() error { return unlockPostgres(ctx, conn) }, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock the schema: %w", ctx.Err()), conn.Close())
		}
	}
}

// unlockPostgres releases the lock even if ctx has ended. Otherwise the connection would return to
// the pool with the lock.
func unlockPostgres(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := conn.ExecContext(ctx,
		`SELECT pg_advisory_unlock(hashtext('keypool migrations'), hashtext(current_schema()))`)
	if err != nil {
		err = fmt.Errorf("unlock the schema: %w", err)
	}
	return errors.Join(err, conn.Close())
}
