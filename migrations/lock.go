package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"keypool/internal/diskfile"
	"keypool/internal/sqlite"
)

// This package does not use the locks of goose. Goose looks for pending migrations and creates its
// table before it takes its lock, and it polls for the lock once per second. The locks in this file
// are released when the process that holds them ends for any reason.

func lock(ctx context.Context, db *sql.DB, engine Engine) (unlock func() error, err error) {
	if engine == SQLite {
		return lockSQLite(ctx, db)
	}
	return lockPostgres(ctx, db)
}

// LockSuffix is the end of the name of the file that a migration of an SQLite database locks. The name begins with the
// name of the database.
const LockSuffix = "-migrate"

// lockSQLite locks a separate file next to the database, because the lock of the database ends with
// each transaction. The file belongs to the owner of the database, so that this user can run the next migration.
func lockSQLite(ctx context.Context, db *sql.DB) (func() error, error) {
	path, err := sqlite.Path(ctx, db)
	if err != nil {
		return nil, err
	}
	if path == "" { // the database is in memory, and no other process can use it
		return func() error { return nil }, nil
	}
	file, err := diskfile.CreateBeside(path, path+LockSuffix)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("create the lock of the migration: %w", err)
	}
	return sqlite.Lock(ctx, path+LockSuffix)
}

// lockPostgres takes an advisory lock for the schema, in a separate transaction that stays open until unlock is called.
// The lock belongs to the transaction and not to the session, because a connection pooler such as PgBouncer may give
// each transaction another session.
//
// lockPostgres polls, because a statement that waits for the lock inside PostgreSQL holds a snapshot. CREATE INDEX
// CONCURRENTLY, which the process with the lock may run, waits for the snapshots of other transactions. So the two
// statements would deadlock.
func lockPostgres(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database for the migration: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		locked, err := tryLock(ctx, conn)
		if err != nil {
			// If ctx has ended, the driver reports only that the connection is closed.
			return nil, errors.Join(fmt.Errorf("lock the schema: %w", cmp.Or(ctx.Err(), err)), conn.Close())
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

// tryLock takes the lock if no other process has it. The transaction is not a [sql.Tx], because a sql.Tx ends with its
// context, and the lock must last until unlock.
func tryLock(ctx context.Context, conn *sql.Conn) (locked bool, err error) {
	if _, err := conn.ExecContext(ctx, `BEGIN ISOLATION LEVEL READ COMMITTED`); err != nil {
		return false, err
	}
	err = conn.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock(hashtext('keypool migrations'), hashtext(current_schema()))`).Scan(&locked)
	if err != nil {
		return false, err
	}
	// A migration can take hours, and PostgreSQL may have a time limit for idle transactions. SET LOCAL removes
	// this limit for the transaction. SET LOCAL has a second purpose: the transaction keeps the snapshot of the SELECT
	// until its next statement begins, and CREATE INDEX CONCURRENTLY would wait for this snapshot.
	next := `SET LOCAL idle_in_transaction_session_timeout = 0`
	if !locked {
		next = `ROLLBACK`
	}
	_, err = conn.ExecContext(ctx, next)
	return locked, err
}

// unlockPostgres releases the lock even if ctx has ended.
func unlockPostgres(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := conn.ExecContext(ctx, `ROLLBACK`)
	if err != nil {
		err = fmt.Errorf("unlock the schema: %w", err)
	}
	return errors.Join(err, conn.Close())
}
