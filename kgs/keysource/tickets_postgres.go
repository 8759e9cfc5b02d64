package keysource

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgresTickets counts with two sequences, which nobody waits for: nextval is never
// rolled back.
//
// PostgreSQL writes a sequence to its log 32 values ahead, and a call that does so is
// answered when that is on disk: a crash skips up to 32. A value between those can be
// answered just before the log is on disk and be given again after a crash. No link of the
// same database can have it, because its commit comes later in the log; if one of another
// database has, the store refuses the code.
type PostgresTickets struct{ pool *pgxpool.Pool }

var _ TicketDatabase = (*PostgresTickets)(nil)

// NewPostgresTickets counts on connections of pool, which stays the caller's to close.
func NewPostgresTickets(pool *pgxpool.Pool) *PostgresTickets { return &PostgresTickets{pool} }

// Take implements [TicketDatabase], in one round trip.
func (t *PostgresTickets) Take(ctx context.Context, p Parity, n int64) (last int64, err error) {
	query := `SELECT max(nextval('kgs_tickets_even')) FROM generate_series(1, $1::bigint)`
	if p == Odd {
		query = `SELECT max(nextval('kgs_tickets_odd')) FROM generate_series(1, $1::bigint)`
	}
	err = t.pool.QueryRow(ctx, query, n).Scan(&last)
	return last, err
}
