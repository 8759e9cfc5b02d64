package kgs

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// NewPostgresLedger makes a ledger on connections of pool, which stays the
// caller's to close, after the ledger.
func NewPostgresLedger(pool *pgxpool.Pool) *Ledger {
	db := stdlib.OpenDBFromPool(pool)
	return &Ledger{write: db, read: db, close: db.Close, dialect: dialect{
		// A process that is stopped or cut off in mid-transaction would keep the lock of
		// the ledger's row, and everybody else waiting, until TCP gives up.
		begin: `SET LOCAL idle_in_transaction_session_timeout = '5s'`,
		lock:  `SELECT epoch, last_range FROM kgs_ledger WHERE id = 1 FOR UPDATE`,
		// Not now(), which is when the transaction began to wait for the lock.
		renew: `INSERT INTO kgs_holders (holder, seen_at) VALUES ($1, clock_timestamp())
			ON CONFLICT (holder) DO UPDATE SET seen_at = excluded.seen_at`,
		forget: `DELETE FROM kgs_holders
			WHERE seen_at < clock_timestamp() - interval '1 microsecond' * $1::bigint`,
		snapshot: sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	}}
}
