package ledger

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// PostgresHistory names the history of the data: the cluster, and its timeline, which
// begins anew whenever a standby is promoted or a backup is recovered to a point in
// time (PostgreSQL manual, 26.3.5). Any role may ask.
const PostgresHistory = `(SELECT system_identifier FROM pg_control_system()) || '/' ||
	left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// NewPostgres makes a ledger on connections of pool, which stays the
// caller's to close, after the ledger.
func NewPostgres(pool *pgxpool.Pool) *Ledger {
	db := stdlib.OpenDBFromPool(pool)
	return &Ledger{write: db, read: db, close: db.Close, dialect: dialect{
		// A process that is stopped or cut off in mid-transaction would keep the lock of
		// the ledger's row, and everybody else waiting, until TCP gives up.
		begin: `SET LOCAL idle_in_transaction_session_timeout = '5s'`,
		lock:  `SELECT epoch, last_range, history, ` + PostgresHistory + ` FROM kgs_ledger WHERE id = 1 FOR UPDATE`,
		// Not now(), which is when the transaction began to wait for the lock.
		renew: `INSERT INTO kgs_holders (holder, beat, seen_at) VALUES ($1, 1, clock_timestamp())
			ON CONFLICT (holder) DO UPDATE SET beat = kgs_holders.beat + 1, seen_at = excluded.seen_at`,
		// This is now() on purpose: an index can be searched by it.
		now:      `CAST(extract(epoch FROM now()) * 1000000 AS bigint)`,
		snapshot: sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	}}
}
