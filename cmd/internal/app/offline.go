package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"time"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/sqlite"
	"keypool/kgs/audit"
	"keypool/kgs/ledger"
	"keypool/kgs/pgpool"
)

// OpenOffline opens the database for a command that may run while servers run. It neither creates nor
// migrates a database. The start of a program and the command migrate do both, and the command reindex
// migrates. The caller closes the Core.
func OpenOffline(ctx context.Context, s config.Common, log io.Writer) (_ *Core, err error) {
	if err := s.Complete(); err != nil {
		return nil, err
	}
	s.Migrate.On = false
	if err := CheckExists(s.Database); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, program.StartTimeout)
	defer cancel()
	life := &program.Lifecycle{}
	c, err := newCore(s, life, NewLogger(log, s.LogLevel, s.LogFormat)).open(ctx)
	if err != nil {
		return nil, errors.Join(err, life.Shutdown(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// CheckExists fails if the file of an SQLite database does not exist. It does not check a PostgreSQL database.
func CheckExists(d config.Database) error {
	if d.SQLitePath == "" {
		return nil
	}
	if err := sqlite.RequireFile(d.SQLitePath); err != nil {
		return fmt.Errorf("%w: move the file back", err)
	}
	if _, err := os.Stat(d.SQLitePath); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no database at %s: start a server or run `shortener migrate`", d.SQLitePath)
	}
	return nil
}

// MigrateDatabase migrates the schema of the database, and creates the file of an SQLite database that does not exist. Then
// it calls the function links, which migrates the links. Only ctx limits the time of MigrateDatabase. If the ledger was
// created with another secret and anySecret is false, MigrateDatabase changes nothing and returns ledger.ErrWrongSecret.
func MigrateDatabase(ctx context.Context, s config.Common, anySecret bool, log *slog.Logger, links func(*Core) error) (err error) {
	s.Migrate.On = true
	life := &program.Lifecycle{}
	defer func() { err = errors.Join(err, life.Shutdown(context.WithoutCancel(ctx))) }()
	c := newCore(s, life, log)
	c.anySecret = anySecret
	if _, err := c.open(ctx); err != nil {
		return err
	}
	return links(c)
}

// Identify opens the code space of an existing ledger and changes nothing.
func (c *Core) Identify(ctx context.Context) (err error) {
	c.Space, err = c.ledger.Identify(ctx, c.ledgerConfig())
	return err
}

// CheckUnused returns ledger.ErrInUse if another program uses the database. Otherwise it returns a ledger.Unused, whose method Lock
// repeats the check in a transaction.
func (c *Core) CheckUnused(ctx context.Context) (ledger.Unused, error) {
	return c.ledger.CheckUnused(ctx)
}

// ReplaceLedger creates a new ledger with the present settings in the place of a ledger whose secret is lost. It
// calls updateLinks in the same transaction. [ledger.Ledger.Replace] describes the parameters.
func (c *Core) ReplaceLedger(ctx context.Context, forgetLeases bool, updateLinks func(context.Context, *sql.Tx) error) error {
	if err := c.ledger.Replace(ctx, c.ledgerConfig(), forgetLeases, updateLinks); err != nil {
		return err
	}
	return c.OpenLedger(ctx)
}

// Restored records in the ledger and in the pool of postgres-pool that the database was restored from a backup. The caller
// gets the Core from OpenOffline.
func (c *Core) Restored(ctx context.Context) error {
	if err := c.ledger.Restored(ctx); err != nil || c.ledgerDB == nil {
		return err
	}
	return pgpool.New(c.ledgerDB, pgpool.Config{}).Restored(ctx)
}

// auditPatience is how long an audit waits for a new epoch after Redis lost the pool. A worker needs about two seconds
// to begin the epoch.
const auditPatience = 5 * time.Second

// Audit compares the ledger and the pool with the links. The function links yields the rows of the link store, and order
// is the order in which that store keeps its links. The caller gets the Core from OpenOffline and calls Identify first.
func (c *Core) Audit(ctx context.Context, order audit.Order, links func(context.Context) iter.Seq2[audit.Linked, error]) (audit.Accounts, error) {
	evidence := audit.Evidence{Space: c.Space, Order: order, Snapshot: c.ledger.Snapshot, Links: links}
	if c.RedisURL != "" {
		client, err := c.openRedis()
		if err != nil {
			return audit.Accounts{}, err
		}
		pool, err := c.redisPool(ctx, client)
		if err != nil {
			return audit.Accounts{}, err
		}
		evidence.Pool, evidence.Epochs, evidence.Patience = pool.Snapshot, pool.Epochs, auditPatience
	}
	accounts, err := audit.Run(ctx, evidence)
	if errors.Is(err, audit.ErrPoolUnknown) {
		err = fmt.Errorf("%w; set REDIS_URL to the Redis of the pool; if its data is permanently lost and no server uses redis-pool, start `kgs` with the REDIS_URL of an empty Redis, keep this Redis, and repeat the audit with the same REDIS_URL", err)
	}
	if err == nil && c.ledgerDB != nil {
		err = accounts.AddPostgresPool(ctx, c.ledgerDB, links(ctx))
	}
	return accounts, err
}
