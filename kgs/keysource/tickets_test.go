package keysource

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/sony/gobreaker/v2"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/migrations"
)

// counter is a ticket database under test. set changes its counter directly. open returns a new TicketDatabase for the
// same counter, as another process would have.
type counter struct {
	TicketDatabase
	set  func(t *testing.T, p Parity, last int64)
	open func() TicketDatabase
}

// onTicketDatabases runs a test on a new ticket database of each engine.
func onTicketDatabases(t *testing.T, test func(t *testing.T, db counter)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgresCounter(t, testenv.PostgresURL(t))) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, sqliteCounter(t)) })
}

func postgresCounter(t *testing.T, url string) counter {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	kgstest.CloseAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db, migrations.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	return counter{NewPostgresTickets(pool), func(t *testing.T, p Parity, last int64) {
		t.Helper()
		sequence := map[Parity]string{Even: "kgs_tickets_even", Odd: "kgs_tickets_odd"}[p]
		if _, err := pool.Exec(t.Context(), `SELECT setval($1::text::regclass, $2)`, sequence, last); err != nil {
			t.Fatal(err)
		}
	}, func() TicketDatabase { return NewPostgresTickets(pool) }}
}

func sqliteCounter(t *testing.T) counter {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tickets.db"))
	if err != nil {
		t.Fatal(err)
	}
	kgstest.CloseAfter(t, db.Close)
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	// No test crashes the machine, so no commit needs a sync.
	if _, err := db.Write.ExecContext(t.Context(), `PRAGMA synchronous = OFF`); err != nil {
		t.Fatal(err)
	}
	tickets := NewSQLiteTickets(db)
	return counter{tickets, func(t *testing.T, p Parity, last int64) {
		t.Helper()
		tickets.ahead[p].last, tickets.ahead[p].end = 0, 0
		if _, err := db.Write.ExecContext(t.Context(), `UPDATE kgs_tickets SET last = $1 WHERE parity = $2`, last, int64(p)); err != nil {
			t.Fatal(err)
		}
	}, func() TicketDatabase { return NewSQLiteTickets(db) }}
}

// newTestTickets returns a generator with a long timeout, so that no call times out on a busy
// machine.
func newTestTickets(odd, even TicketDatabase, length int) *Tickets {
	tickets := NewTickets(odd, even, length, slog.New(slog.DiscardHandler))
	tickets.timeout = time.Minute
	return tickets
}

// ticket calls Next with the given attempt and returns the number of the key.
func ticket(t *testing.T, tickets *Tickets, attempt int) int64 {
	t.Helper()
	k, err := tickets.Next(t.Context(), "", attempt)
	if err != nil {
		t.Fatal(err)
	}
	_, n, err := codespace.Plain().Number(k.Code)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTicketsFollowGeneratorContract(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		kgstest.TestGenerator(t, func(*testing.T) kgs.Generator { return newTestTickets(db, db, 6) })
	})
}

func TestTicketsAlternateBetweenDatabases(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		tickets := newTestTickets(db, db, 6)
		for _, want := range []string{"000001", "000002", "000003", "000004"} {
			if k, err := tickets.Next(t.Context(), "", 0); k != (kgs.Key{Code: want, Source: kgs.SourceTicket}) || err != nil {
				t.Errorf("Next = %+v, %v, want %s", k, err, want)
			}
		}
		// A repeated attempt uses the database of the creation that began last.
		for i, want := range []int64{4 + 2*2, 8 + 2*4, 16 + 2*8} {
			if got := ticket(t, tickets, i+1); got != want {
				t.Errorf("attempt %d got the number %d, want %d", i+1, got, want)
			}
		}
	})
}

func TestTicketsUseLongerCodesWhenShortCodesAreUsedUp(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		tickets := newTestTickets(db, db, 3)
		db.set(t, Odd, codespace.Size(3)-3)
		db.set(t, Even, codespace.Size(3)-2)
		for _, want := range []string{"zzz", "1000"} {
			if k, err := tickets.Next(t.Context(), "", 0); k.Code != want || err != nil {
				t.Errorf("Next = %+v, %v, want %s", k, err, want)
			}
		}
		db.set(t, Odd, codespace.Size(codespace.MaxLength)-1)
		db.set(t, Even, codespace.Size(codespace.MaxLength))
		for range 2 * failures {
			if _, err := tickets.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) || !errors.Is(err, kgs.ErrExhausted) {
				t.Errorf("Next after the last number: %v, want ErrNoKeys and ErrExhausted", err)
			}
		}
		if got := tickets.State(); got != gobreaker.StateClosed {
			t.Errorf("the breaker is %v although the database answers", got)
		}
	})
}

// TestTicketsFindFreeNumberAfterCountersAreLost simulates that both databases lost their counters after all numbers up
// to 50,000 got links. Each search must find a number without a link within 15 attempts.
func TestTicketsFindFreeNumberAfterCountersAreLost(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		const links = 50_000
		tickets := newTestTickets(db, db, 6)
		create := func() (attempts int) {
			for ticket(t, tickets, attempts) <= links {
				attempts++
			}
			return attempts
		}
		for _, want := range []int{14, 14, 0, 0} { // the sum of the steps 2, 4, 8, ..., 2^15 of a counter exceeds 50,000
			if got := create(); got != want {
				t.Errorf("a creation had %d conflicts, want %d", got, want)
			}
		}
		if n := ticket(t, tickets, 0); n > 2*links {
			t.Errorf("the search continued at the number %d, want at most 100000", n)
		}
	})
}

// Without a limit of the step, a call with a large step would exceed its timeout.
func TestStepWidthOfTicketSearchIsLimited(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		tickets := newTestTickets(db, db, 6)
		if n := ticket(t, tickets, 9_999); n != 1<<(maxTicketGallop+1) {
			t.Errorf("attempt 9,999 got the number %d, want the limit of the step", n)
		}
	})
}

// TestTicketsRepeatNoNumberAfterCrash checks that a crash skips at most the 32 numbers that are stored ahead
// and repeats no number.
func TestTicketsRepeatNoNumberAfterCrash(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := testenv.StartPostgres(t)
		testCrash(t, postgresCounter(t, server.URL), func() { server.Kill(); server.Restart() })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := sqliteCounter(t).TicketDatabase.(*SQLiteTickets)
		testCrash(t, db, func() { *db = *NewSQLiteTickets(db.db) })
	})
}

func testCrash(t *testing.T, db TicketDatabase, crash func()) {
	t.Helper()
	var last int64
	for range 100 {
		last = takeTicket(t, db)
	}
	for range 3 {
		crash()
		next := takeTicket(t, db)
		if next <= last || next > last+2*33 {
			t.Errorf("the number after a crash is %d, want a number above %d, by at most 66", next, last)
		}
		last = next
	}
}

// takeTicket takes an odd number as soon as the database is available.
func takeTicket(t *testing.T, db TicketDatabase) (n int64) {
	t.Helper()
	kgstest.Await(t, "a number", func() (done bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		n, err = db.Take(ctx, Odd, 1)
		return err == nil
	})
	return n
}
