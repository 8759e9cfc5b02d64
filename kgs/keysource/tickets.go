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
	// ticketTimeout bounds a call of the ticket database that a creation asks first, and
	// ticketPatience times that one of the other, after which there is none. Together they
	// are less than the second in which a creation is to be refused.
	ticketTimeout  = 250 * time.Millisecond
	ticketPatience = 2
	// maxTicketGallop bounds the steps of a search to 2^16, which PostgreSQL counts one
	// by one, within ticketTimeout.
	maxTicketGallop = 16
)

// Parity is the remainder of a number divided by 2.
type Parity int64

// Even and Odd numbers come from a ticket database each.
const (
	Even Parity = 0
	Odd  Parity = 1
)

// TicketDatabase counts for [Tickets]. It may be used from any goroutine.
type TicketDatabase interface {
	// Take takes the next n numbers of parity p, which nobody was given before, and gives
	// the last of them. It blocks as long as ctx allows. A number whose answer is lost is
	// given to nobody.
	Take(ctx context.Context, p Parity, n int64) (last int64, err error)
}

// Tickets numbers the links by two databases, of which one counts the odd numbers and
// the other the even ones, a round trip for each. Creations alternate between the two.
// One that fails three times in a row is left alone, but for one call a second (see
// [kgs.Breaker]), and the other serves all. The number in base 62, padded with zeros, is the
// code: whoever has seen one knows the others. When a length is used up the codes become
// longer, up to MaxLength.
//
// A database that came back from an older state counts again what it counted before, and
// the store refuses the codes: they are links. Each conflict of a creation doubles the step
// to the next number, as in [RedisIncr]. Where the same failover has lost links too, nothing
// tells that their codes were given before.
//
// All methods may be called concurrently.
type Tickets struct {
	length  int
	timeout time.Duration // ticketTimeout, but for tests
	turn    atomic.Int64
	sides   [2]ticketSide // by parity
}

type ticketSide struct {
	TicketDatabase
	circuit *gobreaker.CircuitBreaker[int64]
}

var _ kgs.Generator = (*Tickets)(nil)

// NewTickets makes a generator of codes of at least the given length. Both databases may
// be the same one. It calls neither.
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

// Next waits for the one database for 250 ms at most, and then for the other one for 500. A
// retry stays with the database of the creation that began last, unless the other one fails.
// That is its own unless others began meanwhile: there the next free number is to be found.
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

// first is the database whose turn it is, unless the other one fails: that one's circuit
// answers at once, but for its one try a second, and the one that serves has the more time.
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

// take asks one database for a number, unless its circuit is open.
func (t *Tickets) take(ctx context.Context, p Parity, attempt int, timeout time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	side := &t.sides[p]
	return side.circuit.Execute(func() (int64, error) {
		return side.Take(ctx, p, 1<<min(attempt, maxTicketGallop))
	})
}

// State is that of the worse of the two circuits: closed (0), half-open (1) or open (2). While
// one is open the other serves, and nothing stands in for it.
func (t *Tickets) State() gobreaker.State {
	return max(t.sides[Even].circuit.State(), t.sides[Odd].circuit.State())
}
