package keysource

import (
	"context"

	"keypool/internal/sqlite"
)

// ticketsAhead is how many numbers are stored ahead of their use, as in a PostgreSQL sequence.
// With a sync for each number, all creations would wait in line for the disk.
const ticketsAhead = 32

// SQLiteTickets counts with one row per parity. A number is durable before it is issued. A
// crash or a stop skips up to 32 numbers that were stored ahead.
type SQLiteTickets struct {
	db    *sqlite.DB
	turn  chan struct{} // a mutex for ahead that respects contexts; its capacity is 1
	ahead [2]struct {   // by parity
		last int64 // the last number that was issued
		end  int64 // the last number that is stored for this process
	}
}

var _ TicketDatabase = (*SQLiteTickets)(nil)

// NewSQLiteTickets counts in db. The caller closes db.
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

// advance stores n numbers and returns the last one. It waits for other writers.
func (t *SQLiteTickets) advance(ctx context.Context, p Parity, n int64) (last int64, err error) {
	// Use a transaction: a single statement that returns rows would hide the error of its
	// commit.
	tx, err := t.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit, and returns an error that does not matter
	err = tx.QueryRowContext(ctx, `UPDATE kgs_tickets SET last = last + 2 * $1 WHERE parity = $2 RETURNING last`, n, int64(p)).
		Scan(&last)
	if err != nil {
		return 0, err
	}
	return last, tx.Commit()
}
