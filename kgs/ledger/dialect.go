package ledger

import (
	"context"
	"database/sql"
	"math/rand/v2"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
)

// dialect is the SQL that differs between database engines.
type dialect struct {
	begin    string        // statement that limits how long a frozen client can hold a transaction; may be empty
	lock     string        // query that locks the row of the ledger and reads the fields of a lockedRow, in their order
	renew    string        // statement that records a heartbeat of holder $1
	now      string        // expression for the present time in microseconds since 1970
	opened   string        // expression for the time at which an epoch was opened, in microseconds since 1970
	identity string        // expression for the name of the database; see Ledger.Database
	snapshot sql.TxOptions // options of a transaction that reads one consistent state
}

// lockedRow is the result of the query dialect.lock. The field history is the recorded history name of the database.
// The field present is the history name that the database has now; see detectRollback.
type lockedRow struct {
	name             string
	epoch, last      int64
	history, present string
}

// lockRow locks and reads the row of the ledger. It returns sql.ErrNoRows if there is no ledger.
func (d *dialect) lockRow(ctx context.Context, tx *sql.Tx) (r lockedRow, err error) {
	err = tx.QueryRowContext(ctx, d.lock).Scan(&r.name, &r.epoch, &r.last, &r.history, &r.present)
	return r, err
}

// PostgresHistory is an SQL expression that identifies the history of the data: the cluster and
// its timeline. A new timeline begins when a standby is promoted or a backup is recovered to a
// point in time (PostgreSQL manual, section "Timelines"). Every role may evaluate the expression.
const PostgresHistory = `(SELECT system_identifier FROM pg_control_system()) || '/' ||
	left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// NewPostgres returns a ledger that uses pool. The caller closes the ledger before it closes
// pool.
func NewPostgres(pool *pgxpool.Pool) *Ledger {
	db := stdlib.OpenDBFromPool(pool)
	return &Ledger{write: db, read: db, close: db.Close, random: rand.Int64N, dialect: dialect{
		// A process that freezes or loses its connection during a transaction keeps the lock of the
		// ledger's row. Without this timeout, all other processes would wait until the frozen process
		// continues or ends, or until the lost connection times out.
		begin: `SET LOCAL idle_in_transaction_session_timeout = '5s'`,
		lock:  `SELECT name, epoch, last_range, history, ` + PostgresHistory + ` FROM kgs_ledger WHERE id = 1 FOR UPDATE`,
		// The statement does not use now(), because now() is the time at which the transaction began. The
		// transaction may have waited for the lock since that time.
		renew: `INSERT INTO kgs_holders (holder, beat, seen_at) VALUES ($1, 1, clock_timestamp())
			ON CONFLICT (holder) DO UPDATE SET beat = kgs_holders.beat + 1, seen_at = excluded.seen_at`,
		// now() is constant within a statement, so a comparison of a column with now() can use an index.
		now:    `CAST(extract(epoch FROM now()) * 1000000 AS bigint)`,
		opened: `CAST(extract(epoch FROM opened_at) * 1000000 AS bigint)`,
		identity: `(SELECT system_identifier FROM pg_control_system()) || '/' ||
			(SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || CAST(CAST('kgs_ledger' AS regclass) AS oid)`,
		snapshot: sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	}}
}

// NewSQLite returns a ledger in db. The caller closes the ledger before it closes db.
func NewSQLite(db *sqlite.DB) *Ledger {
	return &Ledger{write: db.Write, read: db.Read, close: func() error { return nil }, random: rand.Int64N, dialect: dialect{
		// The query takes no lock, because a transaction of the writing connection already locks the file. The lock of
		// a killed process ends with the process. The history of an SQLite file has no name, so the last column is empty.
		lock: `SELECT name, epoch, last_range, history, '' FROM kgs_ledger WHERE id = 1`,
		renew: `INSERT INTO kgs_holders (holder, beat, seen_at)
			VALUES ($1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
			ON CONFLICT (holder) DO UPDATE SET beat = beat + 1, seen_at = excluded.seen_at`,
		now:      `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`,
		opened:   `opened_at`,
		identity: `''`, // nothing distinguishes an SQLite file from a copy of the file
		snapshot: sql.TxOptions{ReadOnly: true},
	}}
}
