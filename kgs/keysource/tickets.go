package keysource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/kgs"
)

const (
	// ticketTimeout limits the call of the database that a creation asks first. The call of the
	// other database may take ticketPatience times as long, because there is no third one. The
	// sum is below the second within which a creation must be refused.
	ticketTimeout  = 250 * time.Millisecond
	ticketPatience = 2
	// maxTicketGallop limits the step of a search to 2^16. PostgreSQL counts these one by one,
	// and needs less than ticketTimeout for them.
	maxTicketGallop = 16
)

// Parity is the remainder of a number divided by 2.
type Parity int64

// Even and Odd are the parities. Each has its own ticket database.
const (
	Even Parity = 0
	Odd  Parity = 1
)

// TicketDatabase counts for [Tickets]. Its methods are safe for concurrent use.
type TicketDatabase interface {
	// Take takes the next n numbers of parity p and returns the last one. A number is issued at
	// most once. Take blocks until ctx ends. If a reply is lost, its numbers are never issued.
	Take(ctx context.Context, p Parity, n int64) (last int64, err error)
}

// Tickets numbers the links with two databases, with one round trip for each number. One
// database counts the odd numbers, the other the even ones. Creations alternate between the
// two. If one fails three times in a row, it gets only one call per second (see [kgs.Breaker]),
// and the other one serves all creations. The code is the number in base 62, padded with zeros,
// so anyone who knows one code can guess the others. When all codes of a length are used up,
// the codes become longer, up to MaxLength.
//
// A database that was rolled back issues numbers again. The store refuses their codes, because
// they are links. Each conflict of a creation doubles the step to the next number, as in
// [RedisIncr]. If the same failover also lost links, their codes are issued again without a
// conflict.
//
// All methods are safe for concurrent use.
type Tickets struct {
	length  int
	timeout time.Duration // ticketTimeout, except in tests
	turn    atomic.Int64
	sides   [2]ticketSide // by parity
}

type ticketSide struct {
	TicketDatabase
	circuit *gobreaker.CircuitBreaker[int64]
}

var _ kgs.Generator = (*Tickets)(nil)

// NewTickets returns a generator of codes with at least the given length. Both databases may be
// the same one. NewTickets calls neither.
func NewTickets(odd, even TicketDatabase, length int, log *slog.Logger) *Tickets {
	side := func(db TicketDatabase, name string) ticketSide {
		circuit := kgs.NewCircuit[int64](nil, log.With(slog.String("of", name)))
		return ticketSide{db, circuit}
	}
	return &Tickets{
		length: length, timeout: ticketTimeout,
		sides: [2]ticketSide{Even: side(even, "even tickets"), Odd: side(odd, "odd tickets")},
	}
}

// Next waits for one database for at most 250 ms, and then for the other one for at most 500
// ms. A retry uses the database of the creation that began last, unless that database fails.
// Without concurrent creations this is the database of the first attempt. With concurrent
// creations, the search continues wherever the last creation counts.
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

// first returns the parity of the database to ask first: the databases alternate, unless one of
// them fails. The failing database comes second. Its open circuit fails at once, except for one
// try per second, and so leaves the working database more time.
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

// take takes a number from one database, unless its circuit is open.
func (t *Tickets) take(ctx context.Context, p Parity, attempt int, timeout time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	side := &t.sides[p]
	return side.circuit.Execute(func() (int64, error) {
		return side.Take(ctx, p, 1<<min(attempt, maxTicketGallop))
	})
}

// State returns the worse state of the two circuits: closed (0), half-open (1) or open (2).
// While one circuit is open, the other database serves all creations without a spare.
func (t *Tickets) State() gobreaker.State {
	return max(t.sides[Even].circuit.State(), t.sides[Odd].circuit.State())
}
