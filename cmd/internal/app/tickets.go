package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs/keysource"
	"keypool/migrations"
)

// ticketRetry is the time between attempts to migrate a ticket database that was unreachable at
// the start.
const ticketRetry = 2 * time.Second

// openTickets opens the key source ticket: one or two databases, with a breaker for the odd numbers and a breaker for the
// even numbers.
func (ch *Chain) openTickets(ctx context.Context) error {
	odd, err := ch.ticketDatabase(ctx, ch.settings.Tickets[0])
	if err != nil {
		return fmt.Errorf("ticket database of odd numbers: %w", err)
	}
	even := odd
	if ch.settings.Tickets[1] != ch.settings.Tickets[0] {
		if even, err = ch.ticketDatabase(ctx, ch.settings.Tickets[1]); err != nil {
			return fmt.Errorf("ticket database of even numbers: %w", err)
		}
	}
	tickets := keysource.NewTickets(odd, even, ch.CodeLength, ch.Log)
	ch.breaker = tickets
	ch.openKeys(tickets)
	return nil
}

func (ch *Chain) ticketDatabase(ctx context.Context, at config.Database) (keysource.TicketDatabase, error) {
	switch {
	case at == ch.Database && ch.ledgerDB != nil: // the default of TICKET_DATABASE_URLS
		return keysource.NewPostgresTickets(ch.ledgerDB), nil
	case at.Postgres != nil:
		return ch.ticketServer(ctx, at)
	case at.SQLitePath == ch.Database.SQLitePath:
		return keysource.NewSQLiteTickets(ch.SQLite), nil // a SQLite file has only one writing connection
	}
	db, err := openFile(ctx, "TICKET_DATABASE_URLS", at.SQLitePath)
	if err != nil {
		return nil, err
	}
	ch.life.OnStop("ticket database", func(ctx context.Context) error { return program.WaitFor(ctx, db.Close) })
	return keysource.NewSQLiteTickets(db), RefuseDatabase("TICKET_DATABASE_URLS", ch.migrate(ctx, db.Write, migrations.SQLite))
}

// ticketServer opens a ticket database in PostgreSQL. It succeeds even if the database is unreachable,
// because the other ticket database can serve alone. It returns a config.Error if the server rejects the
// connection, or if the database is on a worker of a Citus cluster or belongs to another program.
func (ch *Chain) ticketServer(ctx context.Context, at config.Database) (keysource.TicketDatabase, error) {
	pool, err := ch.OpenPool(ctx, at.LedgerPool())
	if err != nil {
		return nil, err
	}
	err = ch.migrateTickets(ctx, pool)
	if reason := rejection(err); reason != "" {
		return nil, &config.Error{
			Name: "TICKET_DATABASE_URLS", Got: "a server that rejects the connection: " + reason, Takes: "two databases that accept it",
		}
	}
	if isUnreachable(err) {
		ch.Log.Warn("could not connect to a ticket database; it will be migrated when it is reachable", slog.Any("error", err))
		ch.life.Background("migration of a ticket database", ch.fail, func(ctx context.Context) error {
			return ch.migrateLater(ctx, pool)
		})
		err = nil
	}
	return keysource.NewPostgresTickets(pool), RefuseDatabase("TICKET_DATABASE_URLS", err)
}

// migrateLater retries the migration until it succeeds or ctx ends. It returns an error if the
// database has a schema that this program cannot use, is on a worker of a Citus cluster, or belongs to
// another program. It does not log that the database is unreachable, because ticketServer has logged this.
// Of all other errors, it logs only the first one.
func (ch *Chain) migrateLater(ctx context.Context, pool *pgxpool.Pool) error {
	tick := time.NewTicker(ticketRetry)
	defer tick.Stop()
	for logged := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := ch.migrateTickets(ctx, pool)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ch.Log.Info("migrated a ticket database, which is reachable again")
			return nil
		case errors.Is(err, migrations.ErrNewerSchema), errors.Is(err, migrations.ErrOlderSchema),
			errors.Is(err, migrations.ErrCitusWorker), errors.Is(err, migrations.ErrForeign):
			return RefuseDatabase("TICKET_DATABASE_URLS", err)
		case !logged && !isUnreachable(err):
			ch.Log.Warn("could not migrate a ticket database", slog.Any("error", err))
			logged = true
		}
	}
}

// isUnreachable reports whether the connection to a database failed and was not rejected.
func isUnreachable(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) && rejection(err) == ""
}

// rejection returns the message of a server that rejects the user, the password or the database
// of a URL. It returns "" for any other error. The message does not contain the password.
func rejection(err error) string {
	var connect *pgconn.ConnectError
	var answer *pgconn.PgError
	if !errors.As(err, &connect) || !errors.As(err, &answer) {
		return ""
	}
	// The SQLSTATE codes are listed in appendix A of the PostgreSQL manual.
	const invalidAuthorization, noSuchDatabase, noPrivilege = "28", "3D000", "42501"
	if strings.HasPrefix(answer.Code, invalidAuthorization) || answer.Code == noSuchDatabase || answer.Code == noPrivilege {
		return answer.Message
	}
	return "" // for example, the server is starting or has no free connection
}

func (ch *Chain) migrateTickets(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, program.StartTimeout)
	defer cancel()
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(ch.migrate(ctx, db, migrations.PostgreSQL), db.Close())
}
