package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/alecthomas/kong"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/cmd/internal/version"
	"keypool/kgs/keyserver"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
	"keypool/web/admin"
	"keypool/web/httpserver"
)

// kgsFlags is the command line of cmd/kgs.
type kgsFlags struct {
	config.KGS `embed:""`
	Version    kong.VersionFlag `help:"Print program, version and commit."`

	Work        struct{} `cmd:"" default:"1" help:"Keep the Redis pool filled, serve keys to other programs, or both. This is the default."`
	Healthcheck struct{} `cmd:"" help:"Check that the program at ADMIN_ADDR is ready. This also works in a container without a shell. Exit status: 0 if the program is ready, otherwise 1."`
}

func kgsCommandLine(out, errors io.Writer) config.Program {
	return config.Program{
		Name: "kgs", Description: "The key generation service of the shortener. It fills the Redis pool, serves keys to\nother programs, or both.",
		Examples: []config.Example{
			{Command: "DATABASE_URL=postgres://user@host/keypool REDIS_URL=redis://host kgs", Comment: "a refill worker"},
			{Command: "KGS_TOKENS=billing=0123456789abcdef kgs --kgs-listen-addr=:8082", Comment: "keys for another program, over gRPC and HTTP"},
		},
		Version: version.Of("kgs"), Out: out, Errors: errors,
	}
}

// KGS runs the program kgs until ctx ends, and returns its exit status. The function describe adds the reflection service
// to the key service.
func KGS(ctx context.Context, args []string, stdout, stderr io.Writer, describe keyserver.Reflection) int {
	var f kgsFlags
	c := Console{"kgs", stdout, stderr}
	command, err := kgsCommandLine(stdout, stderr).Parse(&f, args)
	if err != nil {
		c.Complain(err)
		return ExitUsage
	}
	switch command {
	case "": // --help or --version
		return 0
	case "healthcheck":
		return c.Exit(CheckHealth(ctx, f.Common))
	}
	if err := f.Complete(); err != nil {
		return c.Exit(err)
	}
	return c.Run(ctx, f.Common, func(log *slog.Logger) (*program.Program, error) { return StartKGS(ctx, f.KGS, log, describe) })
}

var (
	errPoolUnknown   = errors.New("the Redis pool cannot be read")
	errLedgerUnknown = errors.New("the key ledger cannot be read")
)

// StartKGS starts the program kgs: the refill worker of the Redis pool, the key service, or both,
// with an admin listener. The caller must have called s.Complete. If StartKGS fails, it closes
// everything that it opened. If describe is nil, the key service has no reflection service.
func StartKGS(ctx context.Context, s config.KGS, log *slog.Logger, describe keyserver.Reflection) (*program.Program, error) {
	var public *program.Address
	if len(s.Clients) > 0 {
		public = &program.Address{Setting: "KGS_LISTEN_ADDR", Addr: s.ListenAddr}
	}
	return Start(ctx, s.Common, public, log, func(ctx context.Context, p *program.Program, c *Core) error {
		k := &kgsProgram{Core: c, serves: public != nil, counters: ledger.NewWatch(c.ledger.Counters, c.CodeLength, c.Log), started: time.Now()}
		c.life.Background("ledger watch", p.Fail, k.counters.Run)
		if err := c.asHolder(ctx, p.Fail, func() error { return k.open(ctx, p.Fail) }); err != nil {
			return err
		}
		c.Registry.MustRegister(admin.NewGauges(k.status))
		c.ServeAdmin(p, admin.Config{Status: k.status, Ready: k.ready})
		if k.watch != nil {
			log.Info("filling the pool", slog.String("admin", p.AdminURL()), slog.String("version", version.Number()),
				slog.String("database", c.Engine()), slog.Int64("pool_capacity_keys", s.PoolCapacity))
		}
		if k.serves {
			k.serveKeys(p, s.KeyService, describe)
			log.Info("serving keys", slog.String("url", p.URL()), slog.String("admin", p.AdminURL()), slog.String("version", version.Number()),
				slog.String("database", c.Engine()), slog.Int("clients", len(s.Clients)))
		}
		return nil
	})
}

// kgsProgram holds the parts of the program kgs except its listeners.
type kgsProgram struct {
	*Core
	serves   bool // whether the program serves keys to other programs
	counters *ledger.Watch
	watch    *poolWatch // nil without a Redis pool
	started  time.Time
}

// open starts the refill worker if REDIS_URL is set.
func (k *kgsProgram) open(ctx context.Context, fail func(error)) error {
	if k.RedisURL == "" {
		return nil
	}
	if err := k.openRedisPool(ctx); err != nil {
		return err
	}
	k.watch = k.watchPool(fail, watched{look: observeRedis(k.pool.Status), build: k.redisWorkers, giveUp: k.giveUp(fail)})
	return nil
}

// giveUp returns the function that ends the program if no worker can fill the pool. It returns nil if the program
// serves keys, because a key service does not need the pool.
func (k *kgsProgram) giveUp(fail func(error)) func(error) {
	if k.serves {
		return nil
	}
	return fail
}

func (k *kgsProgram) status() admin.Status {
	s := admin.Status{State: string(refill.StateOK), KeySource: "ledger", Since: k.started}
	if k.watch != nil {
		s = admin.Status{KeySource: "redis-pool", CapacityKeys: &k.PoolCapacity}
		k.watch.describe(&s)
	}
	k.describeSpace(&s, k.counters, k.watch)
	describeReserved(&s, k.counters)
	return s
}

// ready returns an error if the program cannot do its work. If the program serves keys, ready does not check the pool,
// because the dead man's switch raises an alarm for the pool.
func (k *kgsProgram) ready(context.Context) error {
	switch {
	case k.serves && !k.ledgerKnown():
		return errLedgerUnknown
	case !k.serves && !k.watch.Judgement().Known:
		return errPoolUnknown
	}
	return nil
}

// ledgerKnown reports whether the ledger was read within the last few seconds. It makes no calls,
// so a health check adds no load.
func (k *kgsProgram) ledgerKnown() bool { return k.counters.Fresh() != nil }

// serveKeys serves keys to other programs on the public listener.
func (k *kgsProgram) serveKeys(p *program.Program, s config.KeyService, describe keyserver.Reflection) {
	srv := httpserver.New(keyserver.New(keyserver.Config{
		Ledger: k.ledger, Space: k.Space, Length: k.CodeLength, Clients: s.Clients, Rate: s.ClientRate,
		Ready: k.ledgerKnown, Logger: k.Log, Metrics: k.metrics, Registerer: k.Registry, Reflection: describe,
	}), k.Log)
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true) // gRPC without TLS, or behind a proxy that terminates TLS
	srv.HTTP2, srv.MaxHeaderBytes = keyStreams(), maxKeyHeader
	k.LimitConnections(p, nil, http2Memory)
	p.ServePublic("key listener", srv)
}
