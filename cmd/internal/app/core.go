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

// startTimeout bounds a start: whatever is not reachable by then is reported, and a
// supervisor tries again.
const startTimeout = 30 * time.Second

// core is what every program of the project has: a database that is up to date, the
// key ledger in it, metrics, a name of its own, and after openLedger the code space.
type core struct {
	Settings
	life     *lifecycle
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *kgs.Metrics
	instance string // names this process to people
	holder   string // names it in the books
	store    shortener.Store
	ledger   *ledger.Ledger
	books    *pgxpool.Pool // the ledger's connections; nil for SQLite
	file     *sqlite.DB    // nil for PostgreSQL
	space    *codespace.Space
	pool     *redispool.Pool // nil until openRedisPool
}

// openCore opens everything in core and registers how it is closed. An error leaves
// it to the caller to stop life.
func openCore(ctx context.Context, s Settings, life *lifecycle, log *slog.Logger) (*core, error) {
	c := &core{
		Settings: s, life: life, log: log,
		registry: prometheus.NewRegistry(), instance: instanceName(), holder: holderName(),
	}
	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.metrics = kgs.NewMetrics(c.registry)
	if err := c.openDatabase(ctx); err != nil {
		return nil, err
	}
	c.ledger.OnSkipAhead(func(left int64) {
		log.Error("the database came back from an older state: links that it had acknowledged may be lost; the ledger jumps ahead",
			slog.Int64("numbers_left_out", left))
		c.metrics.CountSkipAhead(left)
	})
	life.onStop("ledger", func(ctx context.Context) error { return waitFor(ctx, c.ledger.Close) })
	return c, nil
}

// openLedger finds the code space, and refuses a secret that is not its own.
func (c *core) openLedger(ctx context.Context) error {
	space, err := c.ledger.Open(ctx, c.ledgerConfig())
	if err != nil {
		return fmt.Errorf("open the key ledger: %w", err)
	}
	c.space = space
	return nil
}

func (c *core) ledgerConfig() ledger.Config {
	return ledger.Config{Secret: c.Secret, Permute: c.Permute}
}

func (c *core) openDatabase(ctx context.Context) error {
	if c.Database.postgres == nil {
		return c.openSQLite(ctx)
	}
	return c.openPostgres(ctx)
}

func (c *core) openSQLite(ctx context.Context) error {
	db, err := sqlite.Open(ctx, c.Database.sqlitePath)
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
	links, err := c.openPool(ctx, c.Database.postgres)
	if err != nil {
		return err
	}
	books, err := c.openPool(ctx, c.Database.ledgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(books)
	err = c.migrate(ctx, db, migrations.PostgreSQL)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	c.store, c.ledger, c.books = pgstore.New(links), ledger.NewPostgres(books), books
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

// renewConnections gives the ledger new connections: those it has may be the trouble. One
// that is in use is closed after that.
func (c *core) renewConnections() {
	if c.books != nil {
		c.books.Reset()
	}
}

// migrate brings the schema up to date, or with MIGRATE=false only checks that it is.
func (c *core) migrate(ctx context.Context, db *sql.DB, engine migrations.Engine) error {
	if !c.Migrate {
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

// holderName names a process in the books: as instanceName does, and by chance apart from
// every process that was called that before.
func holderName() string { return instanceName() + "-" + rand.Text()[:8] }
