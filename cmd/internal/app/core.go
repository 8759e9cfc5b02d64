// Package app connects the parts that the programs shortener and kgs share: the key ledger, key sources
// and pools, the admin listener, alerts, and the commands that may run while servers run. It contains
// no code for links. Package cmd/internal/server adds that code, so the program kgs lacks it. The words
// for keys and pools are in docs/glossary.md.
package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/sqlite"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
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
// It is longer than five seconds, because with SQLite the last statement may wait five seconds for another process.
const closeTimeout = 7 * time.Second

// Close runs the steps of the stop. It takes at most closeTimeout. Only a caller of OpenOffline needs it.
func (c *Core) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.life.Shutdown(ctx)
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
