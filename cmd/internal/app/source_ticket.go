package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"keypool/internal/sqlite"
	"keypool/kgs/keysource"
	"keypool/migrations"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// ticketRetry is how often a ticket database is tried that was away at the start.
const ticketRetry = 2 * time.Second

// openTickets: two databases, a breaker before each.
func (ch *chain) openTickets(ctx context.Context) error {
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
	tickets := keysource.NewTickets(odd, even, ch.CodeLength, ch.log)
	ch.breaker = tickets
	ch.openKeys(tickets)
	return nil
}

func (ch *chain) ticketDatabase(ctx context.Context, url databaseURL) (keysource.TicketDatabase, error) {
	switch {
	case url == ch.Database && ch.books != nil: // as it is unless TICKET_DATABASE_URLS says otherwise
		return keysource.NewPostgresTickets(ch.books), nil
	case url.postgres != nil:
		return ch.ticketServer(ctx, url)
	case url.sqlitePath == ch.Database.sqlitePath:
		return keysource.NewSQLiteTickets(ch.file), nil // there is one writing connection to a file
	}
	db, err := sqlite.Open(ctx, url.sqlitePath)
	if err != nil {
		return nil, err
	}
	ch.life.onStop("ticket database", func(ctx context.Context) error { return waitFor(ctx, db.Close) })
	return keysource.NewSQLiteTickets(db), ch.migrate(ctx, db.Write, migrations.SQLite)
}

// ticketServer opens a PostgreSQL that may be away: the other one serves meanwhile. One that
// is there and keeps this program out is refused.
func (ch *chain) ticketServer(ctx context.Context, url databaseURL) (keysource.TicketDatabase, error) {
	pool, err := ch.openPool(ctx, url.ledgerPool())
	if err != nil {
		return nil, err
	}
	err = ch.migrateTickets(ctx, pool)
	if says := refusal(err); says != "" {
		return nil, &SettingError{
			Name: "TICKET_DATABASE_URLS", Got: "a server that says: " + says, Takes: "two databases that let this program in",
		}
	}
	if isAway(err) {
		ch.log.Warn("a ticket database is away and will be migrated when it is back", slog.Any("error", err))
		ch.life.background("migration of a ticket database", ch.fail, func(ctx context.Context) error {
			return ch.migrateWhenBack(ctx, pool)
		})
		err = nil
	}
	return keysource.NewPostgresTickets(pool), err
}

// migrateWhenBack tries again and again until the database is migrated, or ctx ends. It fails
// when the database has another schema than this program. That it was away is known by then;
// whatever else is in the way is told once.
func (ch *chain) migrateWhenBack(ctx context.Context, pool *pgxpool.Pool) error {
	tick := time.NewTicker(ticketRetry)
	defer tick.Stop()
	for told := false; ; {
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
			ch.log.Info("a ticket database is back and migrated")
			return nil
		case errors.Is(err, migrations.ErrNewerSchema), errors.Is(err, migrations.ErrOlderSchema):
			return err
		case !told && !isAway(err):
			ch.log.Warn("a ticket database is back but cannot be migrated", slog.Any("error", err))
			told = true
		}
	}
}

// isAway reports that a database could not be asked.
func isAway(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) && refusal(err) == ""
}

// refusal is what a database says that lets nobody in under the name, the password or to the
// database of its URL, "" when it says no such thing. It never repeats the password.
func refusal(err error) string {
	var connect *pgconn.ConnectError
	var answer *pgconn.PgError
	if !errors.As(err, &connect) || !errors.As(err, &answer) {
		return ""
	}
	const noSuchDatabase, noRight = "3D000", "42501"
	if strings.HasPrefix(answer.Code, "28") || answer.Code == noSuchDatabase || answer.Code == noRight {
		return answer.Message
	}
	return "" // it is starting, or full
}

func (ch *chain) migrateTickets(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(ch.migrate(ctx, db, migrations.PostgreSQL), db.Close())
}
