package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/internal/sqlite"
)

// Goose can lock too, but looks for work, and creates its table, before it does,
// and waits in steps of a second. Both locks here are gone as soon as their holder
// is, however it ended.

func lock(ctx context.Context, db *sql.DB, engine Engine) (unlock func() error, err error) {
	if engine == SQLite {
		return lockSQLite(ctx, db)
	}
	return lockPostgres(ctx, db)
}

// lockSQLite locks a file beside the database, because the database's own lock ends
// with each transaction.
func lockSQLite(ctx context.Context, db *sql.DB) (func() error, error) {
	path, err := sqlite.Path(ctx, db)
	if err != nil {
		return nil, err
	}
	if path == "" { // in memory: nobody else can see it
		return func() error { return nil }, nil
	}
	return sqlite.Lock(ctx, path+"-migrate")
}

// lockPostgres takes a session's advisory lock, one per schema. It asks again and
// again instead of waiting in the server: a waiting statement is a transaction that
// CREATE INDEX CONCURRENTLY would wait for in its turn.
func lockPostgres(ctx context.Context, db *sql.DB) (_ func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
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

// unlockPostgres runs also after ctx has ended, or the lock would go back into the
// connection pool with the connection.
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
