package app

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"keypool/cmd/internal/config"
	"keypool/internal/sqlite"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// startTimeout bounds a start. A start that takes longer fails, and the process supervisor tries
// again.
const startTimeout = 30 * time.Second

// core is what both programs have: a migrated database, the key ledger in it, metrics, a name and,
// after openLedger, the code space.
type core struct {
	config.Common
	life     *lifecycle
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *kgs.Metrics
	instance string // names this process to people
	holder   string // names it in the ledger
	store    shortener.Store
	ledger   *ledger.Ledger
	ledgerDB *pgxpool.Pool // the ledger's connections; nil for SQLite
	file     *sqlite.DB    // nil for PostgreSQL
	space    *codespace.Space
	pool     *redispool.Pool // nil until openRedisPool
}

// openCore opens the database and the ledger and registers how they are closed. After an error
// the caller stops life.
func openCore(ctx context.Context, s config.Common, life *lifecycle, log *slog.Logger) (*core, error) {
	c := &core{
		Common: s, life: life, log: log,
		registry: prometheus.NewRegistry(), instance: instanceName(), holder: holderName(),
	}
	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.metrics = kgs.NewMetrics(c.registry)
	if err := c.openDatabase(ctx); err != nil {
		return nil, err
	}
	c.ledger.OnSkipAhead(func(left int64) {
		log.Error("database rolled back to an older state: acknowledged links may be lost; the ledger skips ahead",
			slog.Int64("numbers_skipped", left))
		c.metrics.CountSkipAhead(left)
	})
	life.onStop("ledger", func(ctx context.Context) error { return waitFor(ctx, c.ledger.Close) })
	return c, nil
}

// openLedger opens the code space. It fails with ledger.ErrWrongSecret for a secret that the ledger
// was not created with.
func (c *core) openLedger(ctx context.Context) error {
	space, err := c.ledger.Open(ctx, c.ledgerConfig())
	if err != nil {
		return fmt.Errorf("open the key ledger: %w", err)
	}
	c.space = space
	return nil
}

func (c *core) ledgerConfig() ledger.Config {
	return ledger.Config{Secret: c.Secret, Permute: c.Permute.On}
}

func (c *core) openDatabase(ctx context.Context) error {
	if c.Database.Postgres == nil {
		return c.openSQLite(ctx)
	}
	return c.openPostgres(ctx)
}

func (c *core) openSQLite(ctx context.Context) error {
	db, err := sqlite.Open(ctx, c.Database.SQLitePath)
	if err != nil {
		return err
	}
	c.life.onStop("database", func(ctx context.Context) error { return waitFor(ctx, db.Close) })
	if err := c.migrate(ctx, db.Write, migrations.SQLite); err != nil {
		return err
	}
	c.store, c.ledger, c.file = sqlitestore.New(db), ledger.NewSQLite(db), db
	return nil
}

func (c *core) openPostgres(ctx context.Context) error {
	links, err := c.openPool(ctx, c.Database.Postgres)
	if err != nil {
		return err
	}
	ledgerDB, err := c.openPool(ctx, c.Database.LedgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(ledgerDB)
	err = c.migrate(ctx, db, migrations.PostgreSQL)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	c.store, c.ledger, c.ledgerDB = pgstore.New(links), ledger.NewPostgres(ledgerDB), ledgerDB
	return nil
}

func (c *core) openPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	c.life.onStop("database", func(ctx context.Context) error {
		return waitFor(ctx, func() error { pool.Close(); return nil })
	})
	return pool, nil
}

// renewConnections gives the ledger new connections, because the present ones may be broken. A
// connection in use is closed after its use.
func (c *core) renewConnections() {
	if c.ledgerDB != nil {
		c.ledgerDB.Reset()
	}
}

// migrate brings the schema up to date, or with MIGRATE=false only checks that it is.
func (c *core) migrate(ctx context.Context, db *sql.DB, engine migrations.Engine) error {
	if !c.Migrate.On {
		return migrations.Check(ctx, db, engine)
	}
	return migrations.Up(ctx, db, engine)
}

// instanceName names a process to people, by host and process id.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// holderName names a process in the ledger: an instanceName with a random suffix, which sets it
// apart from earlier processes of that name.
func holderName() string { return instanceName() + "-" + rand.Text()[:8] }
