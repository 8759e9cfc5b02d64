package ledger

import (
	"database/sql"

	"keypool/internal/sqlite"
)

// NewSQLite returns a ledger in db. The caller closes the ledger first and then db.
func NewSQLite(db *sqlite.DB) *Ledger {
	return &Ledger{write: db.Write, read: db.Read, close: func() error { return nil }, dialect: dialect{
		// A transaction of the writing connection locks the file already. The lock of a killed
		// process ends with the process. A file has no history name, so that column is empty.
		lock: `SELECT epoch, last_range, history, '' FROM kgs_ledger WHERE id = 1`,
		renew: `INSERT INTO kgs_holders (holder, beat, seen_at)
			VALUES ($1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
			ON CONFLICT (holder) DO UPDATE SET beat = beat + 1, seen_at = excluded.seen_at`,
		now:      `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`,
		snapshot: sql.TxOptions{ReadOnly: true},
	}}
}
