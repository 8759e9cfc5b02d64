package keysource

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgresTickets counts with two sequences. No transaction waits for another one, because
// nextval is never rolled back.
//
// PostgreSQL logs a sequence 32 values ahead. The call that does so returns after the log is on
// disk, so a crash skips up to 32 values. A value in between may be returned just before its
// log record is on disk, and be issued again after a crash. No link in the same database can
// have this value, because the commit of the link comes later in the log. If a link in another
// database has it, the store refuses the code.
type PostgresTickets struct{ pool *pgxpool.Pool }

var _ TicketDatabase = (*PostgresTickets)(nil)

// NewPostgresTickets counts on connections of pool. The caller closes the pool.
func NewPostgresTickets(pool *pgxpool.Pool) *PostgresTickets { return &PostgresTickets{pool} }

// Take implements [TicketDatabase] in one round trip.
func (t *PostgresTickets) Take(ctx context.Context, p Parity, n int64) (last int64, err error) {
	query := `SELECT max(nextval('kgs_tickets_even')) FROM generate_series(1, $1::bigint)`
	if p == Odd {
		query = `SELECT max(nextval('kgs_tickets_odd')) FROM generate_series(1, $1::bigint)`
	}
	err = t.pool.QueryRow(ctx, query, n).Scan(&last)
	return last, err
}
