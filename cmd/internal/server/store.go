package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/reorder"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/transfer"
)

// errLinksNotMoved reports that the table links_earlier still contains links.
var errLinksNotMoved = errors.New("the links have not been moved to their tables, because an older release created them or a reindex was interrupted: run `shortener migrate`")

// orderOf is a function that returns the order of the links. A program that creates links uses openOrder. A command that
// creates no links uses readOrder.
type orderOf func(ctx context.Context, c *app.Core, db reorder.Database, keySource string) (shortener.Order, error)

// openConnections opens the connections to PostgreSQL for links, visits and changes of tokens. The ledger has its own
// connections. The reads that a server repeats at short intervals also have their own connections (openPolls).
// openConnections returns nil if the database is SQLite.
func openConnections(ctx context.Context, c *app.Core) (*pgxpool.Pool, error) {
	if c.SQLite != nil {
		return nil, nil
	}
	return c.OpenPool(ctx, c.Database.Postgres)
}

// openPolls opens the connection to PostgreSQL for the data that a server reads at short intervals. It returns nil if
// the database is SQLite.
func openPolls(ctx context.Context, c *app.Core) (*pgxpool.Pool, error) {
	if c.SQLite != nil {
		return nil, nil
	}
	return c.OpenPool(ctx, c.Database.PollPool())
}

// linksDatabase returns the tables of the links in the database of c. The caller calls done after the last use of
// the tables.
func linksDatabase(c *app.Core, connections *pgxpool.Pool) (links reorder.Database, done func() error) {
	if c.SQLite != nil {
		return reorder.SQLite(c.SQLite.Write), func() error { return nil }
	}
	db := stdlib.OpenDBFromPool(connections)
	return reorder.Postgres(db), db.Close
}

// linkStore is a store of links into which links can be imported.
type linkStore interface {
	shortener.Store
	transfer.Links
}

// openStore opens the store of the links in the database of c, and also returns the order of the links. The code
// space of c must be open. connections is the result of openConnections.
func openStore(ctx context.Context, c *app.Core, connections *pgxpool.Pool, keySource string, getOrder orderOf) (linkStore, shortener.Order, error) {
	links, done := linksDatabase(c, connections)
	order, err := getOrder(ctx, c, links, keySource)
	if err := errors.Join(err, done()); err != nil {
		return nil, nil, err
	}
	if c.SQLite != nil {
		return sqlitestore.New(c.SQLite, order), order, nil
	}
	return pgstore.New(connections, order), order, nil
}

const (
	orderInterval = time.Second
	orderTimeout  = 900 * time.Millisecond
)

// watchOrder stops the program when the links get another order. The command reindex requires that no program uses the
// links, but it cannot detect a process that was suspended before the command began and resumes after the command
// ended. Such a process would look for links under their former ranks.
func watchOrder(p *program.Program, c *app.Core, polls *pgxpool.Pool, order shortener.Order) {
	links, done := linksDatabase(c, polls)
	if c.SQLite != nil {
		links = reorder.SQLite(c.SQLite.Read) // the only writing connection is for writers
	}
	failures := kgs.NewFailureLog(c.Log, "check the order of the links")
	p.Background("order of the links", p.Fail, func(ctx context.Context) (err error) {
		defer func() { err = errors.Join(err, done()) }()
		ticks := time.NewTicker(orderInterval)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticks.C:
			}
			recorded, err := recordedWithin(ctx, links, orderTimeout)
			failures.Note(err)
			if err == nil && recorded != order.Fingerprint() {
				return fmt.Errorf("%w: `shortener reindex` ran while this process was suspended; start this process again", shortener.ErrOtherOrder)
			}
		}
	})
}

func recordedWithin(ctx context.Context, links reorder.Database, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return links.Recorded(ctx)
}

// openOrder returns the order of the links. If no order is on record, it records the order of the
// codes of the key source, so that the links of consecutive keys are neighbours.
func openOrder(ctx context.Context, c *app.Core, db reorder.Database, keySource string) (shortener.Order, error) {
	if err := checkMoved(ctx, db); err != nil {
		return nil, err
	}
	exists, err := db.Exists(ctx)
	if err == nil && exists && c.Migrate.On {
		// The table links_earlier exists but is empty, because a migration creates the table even if there
		// are no links to move. Move drops the table. withLinks ensures that no other process fills the
		// table meanwhile.
		err = withLinks(ctx, c, func(links reorder.Database) error { return links.Move(ctx, nil, logProgress(c.Log)) })
	}
	if err != nil {
		return nil, err
	}
	return recordOrder(ctx, c, db, keySource)
}

// readOrder returns the order of the links and changes nothing. If no order is on record, no link has a rank, so
// every order is right.
func readOrder(ctx context.Context, c *app.Core, db reorder.Database, keySource string) (shortener.Order, error) {
	if err := checkMoved(ctx, db); err != nil {
		return nil, err
	}
	recorded, err := db.Recorded(ctx)
	if err != nil {
		return nil, err
	}
	if recorded == "" {
		return wantedOrder(c, keySource), nil
	}
	return knownOrder(c, recorded)
}

// checkMoved returns errLinksNotMoved if the table links_earlier contains links.
func checkMoved(ctx context.Context, db reorder.Database) error {
	pending, err := db.Pending(ctx)
	if err == nil && pending {
		err = errLinksNotMoved
	}
	return err
}

// wantedOrder returns the order of the codes of the key source.
func wantedOrder(c *app.Core, keySource string) *codespace.Space {
	if app.PlainCodes(keySource) {
		return codespace.Plain()
	}
	return c.Space
}

// recordOrder returns the order on record. If no order is on record, it records the wanted order.
func recordOrder(ctx context.Context, c *app.Core, db reorder.Database, keySource string) (shortener.Order, error) {
	recorded, err := db.Record(ctx, wantedOrder(c, keySource).Fingerprint())
	if err != nil {
		return nil, err
	}
	return knownOrder(c, recorded)
}

// knownOrder returns the order with the fingerprint on record.
func knownOrder(c *app.Core, recorded string) (shortener.Order, error) {
	for _, space := range []*codespace.Space{c.Space, codespace.Plain()} {
		if space.Fingerprint() == recorded {
			return space, nil
		}
	}
	return nil, fmt.Errorf("%w: their order has the fingerprint %s, and the key ledger has the fingerprint %s: run `shortener reindex`",
		shortener.ErrOtherOrder, recorded, c.Space.Fingerprint())
}

// withLinks calls the function do with the tables of the links while no other process migrates the
// database. In PostgreSQL, withLinks needs two connections at the same time, one of them for the lock.
// It opens another pool of connections, because the pool of the links may be limited to one
// connection.
func withLinks(ctx context.Context, c *app.Core, do func(reorder.Database) error) error {
	if c.SQLite != nil {
		db := c.SQLite.Write
		return migrations.Exclusive(ctx, db, migrations.SQLite, func() error { return do(reorder.SQLite(db)) })
	}
	connections, err := c.OpenPool(ctx, c.Database.LedgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(connections)
	err = migrations.Exclusive(ctx, db, migrations.PostgreSQL, func() error { return do(reorder.Postgres(db)) })
	return errors.Join(err, db.Close())
}

// migrate migrates the schema and the links of the database, and distributes the links over a Citus cluster if
// the flag --shards is set.
func migrate(ctx context.Context, s config.Server, f migrateFlags, out io.Writer) error {
	if err := s.CompleteOffline(app.KeySources()); err != nil {
		return err
	}
	if err := checkShards(ctx, s, f); err != nil {
		return err
	}
	return migrateThen(ctx, s, app.NewLogger(out, s.LogLevel, s.LogFormat), func(c *app.Core) error {
		if f.Shards == 0 {
			return nil
		}
		return distribute(ctx, c, f.Shards)
	})
}

// migrateDatabase migrates the schema, and moves the links of the table links_earlier to the tables of
// this schema. If the process is killed, the next call continues.
func migrateDatabase(ctx context.Context, s config.Server, log *slog.Logger) error {
	return migrateThen(ctx, s, log, func(*app.Core) error { return nil })
}

// migrateThen does the work of migrateDatabase, and then calls next.
func migrateThen(ctx context.Context, s config.Server, log *slog.Logger, next func(*app.Core) error) error {
	return app.MigrateDatabase(ctx, s.Common, false, log, func(c *app.Core) error {
		err := withLinks(ctx, c, func(links reorder.Database) error { return moveLinks(ctx, c, links, s.KeySource) })
		if err != nil {
			return err
		}
		return next(c)
	})
}

func moveLinks(ctx context.Context, c *app.Core, links reorder.Database, keySource string) error {
	pending, err := links.Pending(ctx)
	if err != nil {
		return err
	}
	var order shortener.Order
	if pending {
		if err := c.Identify(ctx); err != nil {
			return err
		}
		if order, err = recordOrder(ctx, c, links, keySource); err != nil {
			return err
		}
	}
	return links.Move(ctx, order, logProgress(c.Log))
}

// progressInterval is the time between two lines about the progress of a command or of a migration.
const progressInterval = 5 * time.Second

// logProgress returns a function that logs the progress of a migration.
func logProgress(log *slog.Logger) func(moved, total int64) {
	last := time.Now()
	return func(moved, total int64) {
		if moved < total && time.Since(last) < progressInterval {
			return
		}
		last = time.Now()
		log.Info("moved links into their order", slog.Int64("moved", moved), slog.Int64("total", total))
	}
}
