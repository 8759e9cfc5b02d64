package ledger

import (
	"database/sql"

	"keypool/internal/sqlite"
)

// NewSQLite makes a ledger in db, which stays the caller's to close, after the
// ledger.
func NewSQLite(db *sqlite.DB) *Ledger {
	return &Ledger{write: db.Write, read: db.Read, close: func() error { return nil }, dialect: dialect{
		// Transactions of the writing connection hold the lock of the file already. That
		// of a process that is killed goes with it.
		// A file has no history of its own that could be told from another's.
		lock: `SELECT epoch, last_range, history, '' FROM kgs_ledger WHERE id = 1`,
		renew: `INSERT INTO kgs_holders (holder, beat, seen_at)
			VALUES ($1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
			ON CONFLICT (holder) DO UPDATE SET beat = beat + 1, seen_at = excluded.seen_at`,
		now:      `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`,
		snapshot: sql.TxOptions{ReadOnly: true},
	}}
}
