// Package app connects the parts that the programs shortener and kgs share: the key ledger, key sources
// and pools, the admin listener, alerts, and the commands that may run while servers run. It contains
// no code for links. Package cmd/internal/server adds that code, so the program kgs lacks it. The words
// for keys and pools are in docs/glossary.md.
package app

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/sqlite"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
	"keypool/migrations"
)

// Core holds the parts that both programs have: a migrated database, its key ledger, the metrics
// and the name of the process. OpenLedger adds the code space.
type Core struct {
	config.Common
	life     *program.Lifecycle
	Log      *slog.Logger
	Registry *prometheus.Registry
	metrics  *kgs.Metrics
	instance string // name of this process for people
	holder   string // name of this process in the ledger
	ledger   *ledger.Ledger
	ledgerDB *pgxpool.Pool // the ledger's connections; nil for SQLite
	SQLite   *sqlite.DB    // nil for PostgreSQL
	Space    *codespace.Space
	redis    *redispool.Address               // nil until openRedis
	pool     *redispool.Lists                 // nil until openRedisPool
	lists    int                              // number of lists of pool
	sizes    [redispool.MaxLists]atomic.Int64 // number of keys in each list when a worker last read it

	poolers   poolers
	poolAlarm redispool.Alarm

	held      bool // the ledger has this process as a holder
	anySecret bool // migrate the database even if its ledger was created with another secret
}

// Start opens the listeners, the database and the ledger. Then it calls open, which opens the
// other parts of the program. public is nil for a program that has only the admin listener. If
// Start fails, it closes everything that it opened.
func Start(
	ctx context.Context, s config.Common, public *program.Address, log *slog.Logger, open func(context.Context, *program.Program, *Core) error,
) (*program.Program, error) {
	return program.Start(ctx, s.AdminAddr, public, log, func(ctx context.Context, p *program.Program) error {
		c, err := newCore(s, &p.Lifecycle, log).open(ctx)
		if err != nil {
			return err
		}
		if err := c.OpenLedger(ctx); err != nil {
			return err
		}
		return open(ctx, p, c)
	})
}

// newCore returns a Core that is not open.
func newCore(s config.Common, life *program.Lifecycle, log *slog.Logger) *Core {
	c := &Core{
		Common: s, life: life, Log: log,
		Registry: prometheus.NewRegistry(), instance: instanceName(), holder: holderName(),
	}
	c.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.metrics = kgs.NewMetrics(c.Registry)
	if counted, ok := log.Handler().(countedLog); ok {
		c.Registry.MustRegister(counted.dropped)
	}
	return c
}

// open opens the database and the ledger, and registers their closing with c.life. It returns c. If open fails, the
// caller must call c.life.Shutdown.
func (c *Core) open(ctx context.Context) (*Core, error) {
	if err := c.openDatabase(ctx); err != nil {
		return nil, err
	}
	c.ledger.OnSkipAhead(func(abandoned int64) {
		c.Log.Error("the ledger skips ahead: its database was rolled back and may lack acknowledged links, or another database uses the same pool",
			slog.Int64("numbers_abandoned", abandoned))
		c.metrics.CountSkipAhead(abandoned)
	})
	c.life.OnStop("ledger", func(ctx context.Context) error { return program.WaitFor(ctx, c.ledger.Close) })
	return c, nil
}

// OpenLedger opens the code space. It returns ledger.ErrWrongSecret if the ledger was created
// with another secret.
func (c *Core) OpenLedger(ctx context.Context) error {
	space, err := c.ledger.Open(ctx, c.ledgerConfig())
	if err != nil {
		return nameReadOnly(fmt.Errorf("open the key ledger: %w", err))
	}
	c.Space = space
	return nil
}

func (c *Core) ledgerConfig() ledger.Config {
	return ledger.Config{Secret: c.Secret, Permute: c.Permute.On}
}

func (c *Core) openDatabase(ctx context.Context) error {
	if c.Database.Postgres == nil {
		return c.openSQLite(ctx)
	}
	return c.openPostgres(ctx)
}

func (c *Core) openSQLite(ctx context.Context) error {
	db, err := openFile(ctx, "DATABASE_URL", c.Database.SQLitePath)
	if err != nil {
		return err
	}
	c.life.OnStop("database", func(ctx context.Context) error { return program.WaitFor(ctx, db.Close) })
	if err := c.migrate(ctx, db.Write, migrations.SQLite); err != nil {
		return err
	}
	c.ledger, c.SQLite = ledger.NewSQLite(db), db
	c.ledger.KeepWitness(db.Path(), c.Log, c.metrics.CountWitnessFailure)
	return nil
}

// openFile opens the SQLite database that a setting names.
func openFile(ctx context.Context, setting, path string) (*sqlite.DB, error) {
	db, err := sqlite.Open(ctx, path)
	switch {
	case errors.Is(err, sqlite.ErrSeveralNames):
		err = &config.Error{
			Name: setting, Got: err.Error(),
			Takes: "a file with one name, because SQLite keeps a log beside the file, under the same name: copy the file or remove its other hard links, or mount its folder",
		}
	case errors.Is(err, sqlite.ErrNotDatabase):
		err = &config.Error{Name: setting, Got: "sqlite:" + path, Takes: "the path of a SQLite database, or of a file that does not exist yet; a symbolic link must lead to an existing file"}
	}
	return db, err
}

func (c *Core) openPostgres(ctx context.Context) error {
	ledgerDB, err := c.OpenPool(ctx, c.Database.LedgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(ledgerDB)
	err = c.migrate(ctx, db, migrations.PostgreSQL)
	if err := errors.Join(nameUnreachable(err), db.Close()); err != nil {
		return nameReadOnly(err)
	}
	c.ledger, c.ledgerDB = ledger.NewPostgres(ledgerDB), ledgerDB
	return nil
}

// NewPool returns a pool of connections, which the caller closes. NewPool itself does not connect. It may be called concurrently.
// The commits of the connections are durable; see requireDurable.
func (c *Core) NewPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return c.newPool(ctx, cfg, requireDurable)
}

// newPool is NewPool with another check of each new connection.
func (c *Core) newPool(ctx context.Context, cfg *pgxpool.Config, check connectionCheck) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // a role or a database may have another default
	c.poolers.adapt(cfg)
	beginConnections(cfg, check)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return pool, nil
}

// OpenPool is like NewPool, but the stop of the program closes the pool.
func (c *Core) OpenPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return c.openPool(ctx, cfg, requireDurable)
}

// OpenReplicaPool is like OpenPool, for a database to which the program does not write. So it accepts each value of
// synchronous_commit.
func (c *Core) OpenReplicaPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return c.openPool(ctx, cfg, acceptConnection)
}

func (c *Core) openPool(ctx context.Context, cfg *pgxpool.Config, check connectionCheck) (*pgxpool.Pool, error) {
	pool, err := c.newPool(ctx, cfg, check)
	if err != nil {
		return nil, err
	}
	c.life.OnStop("database", func(ctx context.Context) error {
		return program.WaitFor(ctx, func() error { pool.Close(); return nil })
	})
	return pool, nil
}

// releaseHolder removes this process from the holders of the ledger. After an outage of the database, the first call may
// get a connection that the database has closed. Therefore releaseHolder tries again on a new connection.
func (c *Core) releaseHolder(ctx context.Context) error {
	err := c.ledger.Release(ctx, c.holder)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrReplaced) {
		c.renewConnections()
		err = c.ledger.Release(ctx, c.holder)
	}
	if errors.Is(err, ledger.ErrReplaced) { // the new ledger does not have this holder
		err = nil
	}
	c.held = err != nil
	return err
}

// renewConnections makes the ledger open new connections because the present connections may be
// broken. A connection in use is closed after its use.
func (c *Core) renewConnections() {
	if c.ledgerDB != nil {
		c.ledgerDB.Reset()
	}
}

// Engine returns the name of the database engine.
func (c *Core) Engine() string {
	if c.SQLite != nil {
		return "sqlite"
	}
	return "postgresql"
}

// OnStop registers a step of the stop. The stop runs the last registered step first. Each step
// must return when its context ends.
func (c *Core) OnStop(name string, stop func(ctx context.Context) error) { c.life.OnStop(name, stop) }

// closeTimeout limits the time that a command spends on closing the database after its work, because the database may not answer.
const closeTimeout = 2 * time.Second

// Close runs the steps of the stop. It takes at most two seconds. Only a caller of OpenOffline needs it.
func (c *Core) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.life.Shutdown(ctx)
}

// asHolder registers this process as a holder in the ledger. Then it calls open, which opens the
// parts that take keys for this holder. Then it starts the janitor, which sends heartbeats and
// abandons the keys of dead holders. The ledger treats a holder without heartbeats as dead. The stop
// ends the janitor before it releases the holder, because the janitor would register the holder
// again.
func (c *Core) asHolder(ctx context.Context, fail func(error), open func() error) error {
	c.announce(ctx)
	if err := c.ledger.Renew(ctx, c.holder); err != nil {
		return err
	}
	c.held = true
	c.life.OnStop("ledger holder", c.releaseHolder)
	if err := open(); err != nil {
		return err
	}
	j := &ledger.Janitor{Ledger: c.ledger, Holder: c.holder, Logger: c.Log, Metrics: c.metrics}
	if c.pool != nil { // an interface that holds a nil pointer is not nil
		j.Pool = c.pool
	}
	c.life.Background("janitor", fail, j.Run)
	return nil
}

// announce takes over the ranges of killed processes that used the same SQLite file. It also announces this
// process, so that the next process can take over the ranges of this process in the same way. Without announce, a
// server that is killed every few seconds would reserve a whole pool at each start. If announce fails, another
// process takes over the ranges later, when the heartbeats of their holders have been missing for half a minute.
// With PostgreSQL, announce does nothing.
func (c *Core) announce(ctx context.Context) {
	if c.SQLite == nil {
		return
	}
	dead, err := c.ledger.Bury(ctx, c.SQLite.Path())
	if dead > 0 {
		c.Log.Info("took over the ranges of processes that were killed", slog.Int("processes", dead))
	}
	presence, announceErr := ledger.Announce(c.SQLite.Path(), c.holder)
	if announceErr == nil {
		c.life.OnStop("presence", func(context.Context) error {
			c.withdraw(presence)
			return nil
		})
	}
	if err := errors.Join(err, announceErr); err != nil {
		c.Log.Warn("cannot use the lock files of the SQLite database", slog.Any("error", err))
	}
}

// withdraw removes the lock file of this process. If the holder could not be released, for example because the disk is full, the
// file stays, and the next process takes over the ranges of this process. If the holder was released but the file cannot be
// removed, for example because its folder became read-only, withdraw only logs a warning: no range depends on the file.
func (c *Core) withdraw(presence *ledger.Presence) {
	if c.held {
		return // the end of the process ends the lock
	}
	if err := presence.Close(); err != nil {
		c.Log.Warn("could not remove the lock file of this process; the next start removes it", slog.Any("error", err))
	}
}

// Hold registers this process as a holder in the ledger until the stop, for a command that inserts links. While a holder is
// registered, the command reindex refuses to change the order of the links. If the janitor fails, it passes the error to the
// function fail. A heartbeat that cannot be sent is only logged.
func (c *Core) Hold(ctx context.Context, fail func(error)) error {
	return c.asHolder(ctx, fail, func() error { return nil })
}

// migrate brings the schema up to date. With MIGRATE=false, it only checks the schema. If the ledger was created with
// another secret and anySecret is false, migrate changes nothing, because the program that created the ledger must still be
// able to use the database.
func (c *Core) migrate(ctx context.Context, db *sql.DB, engine migrations.Engine) error {
	if engine == migrations.PostgreSQL {
		if err := requireSuitable(ctx, db); err != nil {
			return err
		}
	}
	if !c.Migrate.On {
		return RefuseWorker(migrations.Check(ctx, db, engine))
	}
	version, err := migrations.Version(ctx, db, engine)
	if err == nil && version > 0 && !c.anySecret {
		err = ledger.CheckSecret(ctx, db, c.ledgerConfig())
	}
	if err != nil {
		return err
	}
	return RefuseWorker(migrations.Up(ctx, db, engine))
}

// requireSuitable fails if the database cannot store each text of Unicode, or if the search path has no schema for the
// tables. PostgreSQL does not convert a text for a database with the encoding SQL_ASCII.
func requireSuitable(ctx context.Context, db *sql.DB) error {
	var encoding string
	var schema sql.NullString
	if err := db.QueryRowContext(ctx, `SELECT current_setting('server_encoding'), current_schema()`).Scan(&encoding, &schema); err != nil {
		return fmt.Errorf("read the encoding and the schema of the database: %w", err)
	}
	if !schema.Valid {
		return &config.Error{
			Name: "DATABASE_URL", Got: "a search path without an existing schema",
			Takes: "a search_path whose first schema exists, and a user with the right USAGE on it",
		}
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return &config.Error{
			Name: "DATABASE_URL", Got: "a database with the encoding " + encoding,
			Takes: "a database with the encoding UTF8; docs/operations.md (Upgrade) describes how to move the links of an existing database",
		}
	}
	return nil
}

// RefuseWorker returns an error that names DATABASE_URL if err is [migrations.ErrCitusWorker].
func RefuseWorker(err error) error {
	if errors.Is(err, migrations.ErrCitusWorker) {
		return &config.Error{Name: "DATABASE_URL", Got: "a worker of a Citus cluster", Takes: "the coordinator of this cluster"}
	}
	return err
}

// nameReadOnly names DATABASE_URL in err if err is the error of a PostgreSQL that accepts no writes. The result is not
// a [config.Error], because a supervisor does not start a program again after a config.Error. A standby accepts writes
// after its promotion, so the supervisor must try again.
func nameReadOnly(err error) error {
	const stateReadOnly = "25006" // read_only_sql_transaction
	var reply *pgconn.PgError
	if errors.As(err, &reply) && reply.Code == stateReadOnly {
		return fmt.Errorf("DATABASE_URL leads to a PostgreSQL that accepts no writes, such as a standby: %w", err)
	}
	return err
}

// unreachable is an error of a connection to the database.
type unreachable struct {
	text string
	error
}

func (e *unreachable) Error() string { return e.text }

func (e *unreachable) Unwrap() error { return e.error }

// nameUnreachable names DATABASE_URL in err if err is the error of a connection. The text has the user, the database and the
// reason of each address, but no password. It has each reason once, although pgx tries an address with and without TLS.
func nameUnreachable(err error) error {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	var reasons []string
	for line := range strings.SplitSeq(connect.Unwrap().Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return &unreachable{fmt.Sprintf("cannot connect to the database %q of DATABASE_URL as user %q: %s",
		connect.Config.Database, connect.Config.User, strings.Join(reasons, "; ")), err}
}

// instanceName returns a name of this process for people: the host and the process id.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// holderName returns the name of this process in the ledger: an instance name and a random
// suffix. The suffix distinguishes the process from earlier processes with the same instance
// name.
func holderName() string { return instanceName() + "-" + rand.Text()[:8] }
