package keysource

import (
	"context"

	"keypool/internal/sqlite"
)

// ticketsAhead is how many numbers are written down before they are given, as in a sequence
// of PostgreSQL. Synced one by one, all creations would wait in line for the disk.
const ticketsAhead = 32

// SQLiteTickets counts with a row for each parity. A number is durable before it is given;
// a crash, or a stop, leaves out up to 32 that were written down ahead.
type SQLiteTickets struct {
	db    *sqlite.DB
	turn  chan struct{} // of capacity 1: whoever fills it has the use of ahead
	ahead [2]struct {   // by parity
		last int64 // that was given
		end  int64 // the last that is written down for this process
	}
}

var _ TicketDatabase = (*SQLiteTickets)(nil)

// NewSQLiteTickets counts in db, which stays the caller's to close.
func NewSQLiteTickets(db *sqlite.DB) *SQLiteTickets {
	return &SQLiteTickets{db: db, turn: make(chan struct{}, 1)}
}

// Take implements [TicketDatabase].
func (t *SQLiteTickets) Take(ctx context.Context, p Parity, n int64) (last int64, err error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	a := &t.ahead[p]
	if a.last+2*n > a.end {
		end, err := t.advance(ctx, p, n+ticketsAhead)
		if err != nil {
			return 0, err
		}
		a.last, a.end = end-2*(n+ticketsAhead), end
	}
	a.last += 2 * n
	return a.last, nil
}

// advance writes n numbers down, in line with all else that writes, and gives the last.
func (t *SQLiteTickets) advance(ctx context.Context, p Parity, n int64) (last int64, err error) {
	// A transaction, because a statement that gives rows keeps the failure of its commit to itself.
	tx, err := t.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing and says so
	err = tx.QueryRowContext(ctx, `UPDATE kgs_tickets SET last = last + 2 * $1 WHERE parity = $2 RETURNING last`, n, int64(p)).
		Scan(&last)
	if err != nil {
		return 0, err
	}
	return last, tx.Commit()
}
