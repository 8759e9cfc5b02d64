package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keypool/internal/sqlite"
	"keypool/kgs"
	"keypool/migrations"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// ticketRetry is how often a ticket database is tried that was away at the start.
const ticketRetry = 2 * time.Second

// openTickets: two databases, a breaker before each. The ledger's books are kept for the
// fallback.
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
	tickets := kgs.NewTickets(odd, even, ch.CodeLength, ch.log)
	ch.breaker = tickets
	ch.keepBooks(ch.fail, nil)
	ch.openKeys(tickets)
	return nil
}

func (ch *chain) ticketDatabase(ctx context.Context, url databaseURL) (kgs.TicketDatabase, error) {
	switch {
	case url.postgres != nil:
		return ch.ticketServer(ctx, url)
	case url.sqlitePath == ch.Database.sqlitePath:
		return kgs.NewSQLiteTickets(ch.file), nil // there is one writing connection to a file
	}
	db, err := sqlite.Open(ctx, url.sqlitePath)
	if err != nil {
		return nil, err
	}
	ch.life.onStop("ticket database", func(ctx context.Context) error { return waitFor(ctx, db.Close) })
	return kgs.NewSQLiteTickets(db), ch.migrate(ctx, db.Write, migrations.SQLite)
}

// ticketServer opens a PostgreSQL that may be away: the other one serves meanwhile.
func (ch *chain) ticketServer(ctx context.Context, url databaseURL) (kgs.TicketDatabase, error) {
	pool, err := ch.openPool(ctx, url.ledgerPool())
	if err != nil {
		return nil, err
	}
	err = ch.migrateTickets(ctx, pool)
	var away *pgconn.ConnectError
	if errors.As(err, &away) {
		ch.log.Warn("a ticket database is away and will be migrated when it is back", slog.Any("error", err))
		ch.life.background("migration of a ticket database", ch.fail, func(ctx context.Context) error {
			return ch.migrateWhenBack(ctx, pool)
		})
		err = nil
	}
	return kgs.NewPostgresTickets(pool), err
}

// migrateWhenBack tries again and again until the database is there, or ctx ends. It fails
// when the database has another schema than this program.
func (ch *chain) migrateWhenBack(ctx context.Context, pool *pgxpool.Pool) error {
	tick := time.NewTicker(ticketRetry)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := ch.migrateTickets(ctx, pool)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, errors.Is(err, migrations.ErrNewerSchema), errors.Is(err, migrations.ErrOlderSchema):
			return err
		}
		ch.log.Warn("a ticket database is not migrated yet", slog.Any("error", err))
	}
}

func (ch *chain) migrateTickets(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(ch.migrate(ctx, db, migrations.PostgreSQL), db.Close())
}
