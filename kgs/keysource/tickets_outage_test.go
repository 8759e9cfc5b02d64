package keysource

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

func TestTicketsContinueWhileOneDatabaseIsDown(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(*testenv.Server) }{
		"killed": {(*testenv.Server).Kill, (*testenv.Server).Restart},
		"frozen": {(*testenv.Server).Pause, (*testenv.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartPostgres(t)
			tickets := newTestTickets(postgresCounter(t, server.URL), sqliteCounter(t), 6)
			seen := make(map[int64]bool)
			take := func() (n int64) {
				kgstest.Await(t, "a number", func() bool {
					k, err := tickets.Next(t.Context(), "", 0)
					if err == nil {
						_, n, err = codespace.Plain().Number(k.Code)
					}
					return err == nil
				})
				if seen[n] {
					t.Fatalf("the number %d was issued twice", n)
				}
				seen[n] = true
				return n
			}
			take()
			take()
			tickets.timeout = ticketTimeout
			outage.begin(server)
			began := time.Now()
			for range 2000 {
				if n := take(); n%2 != 0 {
					t.Errorf("the number %d is odd, but the database of the odd numbers is down", n)
				}
			}
			// Without the breaker, every second creation would wait for the database that is down.
			if took := time.Since(began); took > 1000*ticketTimeout/4 {
				t.Errorf("2000 creations took %v, so creations waited for the database that is down", took)
			}
			if tickets.State() == gobreaker.StateClosed {
				t.Error("the breaker is closed although one database is down")
			}
			outage.end(server)
			kgstest.Await(t, "a number of the database that recovered", func() bool { return take()%2 == 1 })
			if s := tickets.State(); s != gobreaker.StateClosed {
				t.Errorf("the breaker is %v while both databases answer, want closed", s)
			}
		})
	}
}

// deadTickets fails at once, like a database whose port is closed.
type deadTickets struct{}

func (deadTickets) Take(context.Context, Parity, int64) (int64, error) {
	return 0, errors.New("connection refused")
}

func (deadTickets) SkipTo(context.Context, Parity, int64) (int64, error) {
	return 0, errors.New("connection refused")
}

// slowTickets counts like a database on a busy disk. A test sets the time of one call.
type slowTickets struct {
	takes time.Duration // duration of one call
	last  int64
}

func (s *slowTickets) Take(ctx context.Context, p Parity, n int64) (int64, error) {
	select {
	case <-time.After(s.takes):
		s.last += 2 * n
		return s.last + int64(p), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// SkipTo is never called, because the counter never returns to a lower number.
func (s *slowTickets) SkipTo(context.Context, Parity, int64) (int64, error) { panic("SkipTo") }

// TestTicketCallHasLongerTimeoutIfOtherDatabaseIsDown opens the circuit breaker of one database. Then
// the other database must get the second call of each creation, which has the longer timeout.
func TestTicketCallHasLongerTimeoutIfOtherDatabaseIsDown(t *testing.T) {
	t.Parallel()
	for _, dead := range []Parity{Even, Odd} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slowTickets{takes: ticketTimeout - time.Millisecond}
			sides := [2]TicketDatabase{slow, slow}
			sides[dead] = deadTickets{}
			tickets := NewTickets(sides[Odd], sides[Even], 6, slog.New(slog.DiscardHandler))
			for range 2 * failures {
				ticket(t, tickets, 0)
			}
			slow.takes = ticketPatience*ticketTimeout - time.Millisecond
			for range 10 {
				ticket(t, tickets, 0)
			}
			slow.takes = ticketPatience*ticketTimeout + time.Millisecond
			if _, err := tickets.Next(t.Context(), "", 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Next while the database of parity %d is down and the other database takes %v: %v, want DeadlineExceeded", dead, slow.takes, err)
			}
		})
	}
}

func TestTicketsFailFastWithoutDatabases(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	db := postgresCounter(t, server.URL)
	tickets := newTestTickets(db, db, 6)
	last := ticket(t, tickets, 0)
	server.Kill()
	for range failures {
		if _, err := tickets.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) || errors.Is(err, gobreaker.ErrOpenState) {
			t.Fatalf("Next: %v, want ErrNoKeys and its cause", err)
		}
	}
	// If this process pauses for a second, the breakers are half-open and let one more call through.
	kgstest.Await(t, "Next fails with ErrNoKeys and ErrOpenState, and the breaker is open", func() bool {
		_, err := tickets.Next(t.Context(), "", 0)
		return errors.Is(err, kgs.ErrNoKeys) && errors.Is(err, gobreaker.ErrOpenState) && tickets.State() == gobreaker.StateOpen
	})
	server.Restart()
	kgstest.Await(t, "a number of the databases that recovered", func() bool {
		k, err := tickets.Next(t.Context(), "", 0)
		if err != nil {
			return false
		}
		_, n, err := codespace.Plain().Number(k.Code)
		return err == nil && n > last
	})
}
