package keysource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"keypool/internal/sqlite"
	"keypool/kgs"
)

const (
	// ticketTimeout is the time limit of the first database call of Tickets.Next. If the first call
	// fails, Next calls the other database. The time limit of the second call is ticketPatience times
	// as long, because there is no third database. The sum of the two limits is below one second,
	// because a creation that gets no key must fail within one second.
	ticketTimeout  = 250 * time.Millisecond
	ticketPatience = 2
	// maxTicketGallop limits the step of the galloping search to 2^16; see RedisIncr. PostgreSQL
	// counts the numbers of a step one by one, and counts 2^16 numbers in less than ticketTimeout.
	maxTicketGallop = 16
)

// Parity is the remainder of a number divided by 2.
type Parity int64

// Even and Odd are the parities. Each parity has its own ticket database.
const (
	Even Parity = 0
	Odd  Parity = 1
)

// TicketDatabase issues the numbers for [Tickets]. Its methods are safe for concurrent use.
type TicketDatabase interface {
	// Take takes the next n numbers of parity p and returns the last of these numbers. Each number
	// is issued at most once. If a reply is lost, its numbers are never issued. Take returns at the
	// latest when ctx ends.
	Take(ctx context.Context, p Parity, n int64) (last int64, err error)
	// SkipTo moves the counter of parity p to a given number, which must have parity p. It returns how many numbers it
	// skipped. If the counter is already at this number or above it, SkipTo skips no number. The comparison and the
	// skip are one atomic step. SkipTo returns at the latest when ctx ends.
	SkipTo(ctx context.Context, p Parity, to int64) (skipped int64, err error)
}

// Tickets numbers the links with two databases, with one round trip for each number. One database
// counts the odd numbers, and the other database counts the even numbers. Creations alternate
// between the databases. A database that fails three times in a row gets only one call per second
// (see [kgs.Breaker]). Meanwhile the other database serves all creations. The code is the number in
// base 62, padded with zeros. So anyone who has one code can guess the other codes. When all codes
// of a length are used up, the codes become longer, up to MaxLength.
//
// A running process has a mark for each database: the highest number that it took from the database. If a database was
// rolled back, it may return a number that is not above the mark. The process then discards the number, moves the
// counter to the mark plus a margin (see skipMargin), and logs the skip. The margin covers numbers that other processes
// took before the rollback.
//
// After a rollback, the database returns some numbers a second time. A process whose mark is below these numbers does
// not notice the rollback, and issues the numbers a second time. The repetition stops when a process with a higher
// mark skips ahead. If no such process runs, no process skips ahead. The store then refuses the codes for which links
// exist. Each conflict of a creation doubles the step to the next number, as in [RedisIncr]. If the rollback also
// removed links, the codes of these links are issued again without a conflict.
//
// All methods are safe for concurrent use.
type Tickets struct {
	length  int
	timeout time.Duration // time limit of the first call; ticketTimeout, except in tests
	turn    atomic.Int64
	sides   [2]ticketSide // the index is the parity
}

type ticketSide struct {
	TicketDatabase
	circuit *gobreaker.CircuitBreaker[int64]
	seen    *highWater
}

var _ kgs.Generator = (*Tickets)(nil)

// NewTickets returns a generator of codes that have at least length characters. The parameters odd
// and even may be the same database. NewTickets does not call the databases.
func NewTickets(odd, even TicketDatabase, length int, log *slog.Logger) *Tickets {
	side := func(db TicketDatabase, name string) ticketSide {
		log := log.With(slog.String("of", name))
		return ticketSide{db, kgs.NewCircuit[int64](nil, log), &highWater{length: length, log: log}}
	}
	return &Tickets{
		length: length, timeout: ticketTimeout,
		sides: [2]ticketSide{Even: side(even, "even tickets"), Odd: side(odd, "odd tickets")},
	}
}

// Next returns the key of a new number. It waits for one database for at most 250 ms. If this call fails, Next waits for
// the other database for at most 500 ms. The first attempts of consecutive creations alternate between the databases.
// After a conflict, the next attempt begins with the database of the creation that began last, which may be a concurrent
// creation. While the breaker of one database is open or half-open, each attempt begins with this database, for the
// reason in the comment of [Tickets.first].
func (t *Tickets) Next(ctx context.Context, _ string, attempt int) (kgs.Key, error) {
	first := t.first(attempt)
	n, err := t.take(ctx, first, attempt, t.timeout)
	if err != nil && ctx.Err() == nil {
		var other error
		if n, other = t.take(ctx, 1-first, attempt, ticketPatience*t.timeout); other != nil {
			other = errors.Join(err, other)
		}
		err = other
	}
	if err != nil {
		return kgs.Key{}, fmt.Errorf("%w: the ticket databases: %w", kgs.ErrNoKeys, err)
	}
	code, err := plainCode(t.length, n)
	if err != nil {
		return kgs.Key{}, fmt.Errorf("%w: the tickets are at %d: %w", kgs.ErrNoKeys, n, err)
	}
	return kgs.Key{Code: code, Source: kgs.SourceTicket}, nil
}

// first returns the parity of the database for the first call. The databases alternate. If the
// breaker of one database is open or half-open, this database gets the first call, so that the working
// database gets the second call with the longer timeout. The first call then usually fails at once,
// because an open breaker lets only one call per second through.
func (t *Tickets) first(attempt int) Parity {
	turn := t.turn.Load()
	if attempt == 0 {
		turn = t.turn.Add(1)
	}
	p := Parity(turn & 1)
	if t.sides[p].circuit.State() < t.sides[1-p].circuit.State() {
		return 1 - p
	}
	return p
}

// take takes a number from one database, through its circuit breaker.
func (t *Tickets) take(ctx context.Context, p Parity, attempt int, timeout time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	side := &t.sides[p]
	n := int64(1) << min(attempt, maxTicketGallop)
	return side.circuit.Execute(func() (int64, error) {
		return side.seen.next(func() (first, last int64, err error) {
			last, err = side.Take(ctx, p, n)
			return last - 2*(n-1), last, err
		}, func(to int64) (skipped int64, err error) { return side.SkipTo(ctx, p, to) })
	})
}

// State returns the worse state of the two circuit breakers: closed (0), half-open (1) or open (2).
// While one breaker is open, the database behind the other breaker serves all creations.
func (t *Tickets) State() gobreaker.State {
	return max(t.sides[Even].circuit.State(), t.sides[Odd].circuit.State())
}

// PostgresTickets counts with two sequences. PostgreSQL never rolls back nextval, so no transaction
// waits for another transaction. But setval can move a sequence back, if other transactions take
// numbers at the same time. Therefore SkipTo takes an advisory lock, and Take takes the same lock in
// shared mode. A Take waits only for a SkipTo, never for another Take.
//
// PostgreSQL logs a sequence 32 values ahead, so a crash skips up to 32 values. The call that
// writes the log record returns after the record is on disk. A concurrent call may return one of
// the next values before the record is on disk. After a crash at this moment, PostgreSQL gives out
// the value again. If the process that issued the value gets it again, this process discards the value
// and skips ahead. Another process can issue the value a second time. If the links are in the same
// database, no link has the value, because the commit of such a link comes later in the log and is lost
// too. If the links are in another database, their primary key refuses a second link with the code.
type PostgresTickets struct{ pool *pgxpool.Pool }

var _ TicketDatabase = (*PostgresTickets)(nil)

// NewPostgresTickets returns a counter that uses connections of pool. The caller closes pool.
func NewPostgresTickets(pool *pgxpool.Pool) *PostgresTickets { return &PostgresTickets{pool} }

// The number of the lock is the object id of the sequence. PostgreSQL evaluates nextval for the rows of
// the join with held, so it takes the lock first.
const (
	takeTickets = `WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared('%[1]s'::regclass::bigint))
		SELECT max(nextval('%[1]s')) FROM held, generate_series(1, $1::bigint)`
	skipTickets = `WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock('%[1]s'::regclass::bigint)),
		taken AS MATERIALIZED (SELECT nextval('%[1]s') AS n FROM held)
		SELECT CASE WHEN n < $1::bigint THEN (setval('%[1]s', $1::bigint) - n) / 2 ELSE 0 END FROM taken`
)

// ofParity returns a query for the sequence of one parity.
func ofParity(query string, p Parity) string {
	if p == Odd {
		return fmt.Sprintf(query, "kgs_tickets_odd")
	}
	return fmt.Sprintf(query, "kgs_tickets_even")
}

// Take implements [TicketDatabase] in one round trip.
func (t *PostgresTickets) Take(ctx context.Context, p Parity, n int64) (last int64, err error) {
	err = t.pool.QueryRow(ctx, ofParity(takeTickets, p), n).Scan(&last)
	return last, err
}

// SkipTo implements [TicketDatabase] in one round trip. If the counter is not below the given number,
// SkipTo nevertheless takes one number, which is never issued.
func (t *PostgresTickets) SkipTo(ctx context.Context, p Parity, to int64) (skipped int64, err error) {
	err = t.pool.QueryRow(ctx, ofParity(skipTickets, p), to).Scan(&skipped)
	return skipped, err
}

// ticketsAhead is how many more numbers an update of the counter stores than the call needs, as in a PostgreSQL
// sequence. If each number needed a sync, all creations would wait for the disk one after the other.
const ticketsAhead = 32

// SQLiteTickets counts with one row per parity. It stores the numbers that a call needs, and 32 more, before it issues
// the first of them. So a number is durable when it is issued. A crash or a stop skips the rest of the stored numbers.
type SQLiteTickets struct {
	db    *sqlite.DB
	turn  *semaphore.Weighted // guards ahead; unlike a wait for a mutex, a wait for turn ends when the context ends
	ahead [2]struct {         // the index is the parity
		last int64 // the last number that was issued
		end  int64 // the last number that is stored for this process
	}
}

var _ TicketDatabase = (*SQLiteTickets)(nil)

// NewSQLiteTickets returns a counter in db. The caller closes db.
func NewSQLiteTickets(db *sqlite.DB) *SQLiteTickets {
	return &SQLiteTickets{db: db, turn: semaphore.NewWeighted(1)}
}

// Take implements [TicketDatabase].
func (t *SQLiteTickets) Take(ctx context.Context, p Parity, n int64) (last int64, err error) {
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer t.turn.Release(1)
	a := &t.ahead[p]
	if a.last+2*n > a.end {
		end, err := t.advance(ctx, `UPDATE kgs_tickets SET last = last + 2 * $1 WHERE parity = $2 RETURNING last`, n+ticketsAhead, p)
		if err != nil {
			return 0, err
		}
		a.last, a.end = end-2*(n+ticketsAhead), end
	}
	a.last += 2 * n
	return a.last, nil
}

// SkipTo implements [TicketDatabase]. If the last issued number is below the given number, SkipTo discards
// all numbers that are stored for this process.
func (t *SQLiteTickets) SkipTo(ctx context.Context, p Parity, to int64) (skipped int64, err error) {
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer t.turn.Release(1)
	a := &t.ahead[p]
	if a.last >= to {
		return 0, nil
	}
	end, err := t.advance(ctx, `UPDATE kgs_tickets SET last = max(last, $1) WHERE parity = $2 RETURNING last`, to, p)
	if err != nil {
		return 0, err
	}
	if end == to { // otherwise the stored number was above the given number
		skipped = (end - a.last) / 2
	}
	a.last, a.end = end, end
	return skipped, nil
}

// advance runs an update of a counter and returns the last number that is stored. It waits for other writers.
func (t *SQLiteTickets) advance(ctx context.Context, update string, n int64, p Parity) (last int64, err error) {
	// Use an explicit transaction. A single statement that returns rows would hide the error of its
	// commit.
	tx, err := t.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit; its error does not matter
	if err := tx.QueryRowContext(ctx, update, n, int64(p)).Scan(&last); err != nil {
		return 0, err
	}
	return last, tx.Commit()
}
