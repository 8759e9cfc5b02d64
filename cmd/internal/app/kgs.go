package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keypool/cmd/internal/config"
	"keypool/kgs/refill"
	"keypool/web/admin"
)

var (
	errPoolUnknown   = errors.New("the Redis pool cannot be read")
	errLedgerUnknown = errors.New("the key ledger cannot be read")
)

// StartKGS starts the program kgs: the refill worker of the Redis pool, the key service, or both,
// with an admin listener. It needs settings that are complete. After an error, it closes what it
// opened.
func StartKGS(ctx context.Context, s config.KGS, log *slog.Logger) (*Program, error) {
	var public *Address
	if len(s.Clients) > 0 {
		public = &Address{"KGS_LISTEN_ADDR", s.ListenAddr}
	}
	return Start(ctx, s.Common, public, log, func(ctx context.Context, p *Program, c *Core) error {
		k := &kgsProgram{Core: c, serves: public != nil, counters: newLedgerWatch(c), started: time.Now()}
		c.life.background("ledger watch", p.Fail, k.counters.run)
		if err := c.asHolder(ctx, p.Fail, func() error { return k.open(ctx, p.Fail) }); err != nil {
			return err
		}
		c.Registry.MustRegister(newGauges(k.status, k.counters))
		p.ServeAdmin(c, admin.Config{Status: k.status, Ready: k.ready})
		if k.watch != nil {
			log.Info("filling the pool", slog.String("admin", p.AdminURL()), slog.Int64("capacity_keys", s.PoolCapacity))
		}
		if k.serves {
			p.serveKeys(s.KeyService, c, k.ledgerKnown)
			log.Info("serving keys", slog.String("url", p.URL()), slog.String("admin", p.AdminURL()),
				slog.Int("clients", len(s.Clients)))
		}
		return nil
	})
}

// kgsProgram has the parts of the program kgs other than its listeners.
type kgsProgram struct {
	*Core
	serves   bool // serves keys to other programs
	counters *ledgerWatch
	watch    *poolWatch // nil without a Redis pool
	started  time.Time
}

// open starts the refill worker if there is a Redis.
func (k *kgsProgram) open(ctx context.Context, fail func(error)) error {
	if k.RedisURL == "" {
		return nil
	}
	if err := k.openRedisPool(ctx); err != nil {
		return err
	}
	k.watch = k.watchPool(fail, watched{look: observeRedis(k.pool.Status), build: k.redisWorker, giveUp: fail})
	return nil
}

func (k *kgsProgram) status() admin.Status {
	s := admin.Status{State: string(refill.StateOK), KeySource: "ledger", Since: k.started}
	if k.watch != nil {
		s = admin.Status{KeySource: "redis-pool", CapacityKeys: &k.PoolCapacity}
		k.watch.describe(&s)
	}
	k.counters.describe(&s)
	return s
}

// ready returns why the program cannot do its work.
func (k *kgsProgram) ready(context.Context) error {
	switch {
	case k.watch != nil && !k.watch.Judgement().Known:
		return errPoolUnknown
	case k.serves && !k.ledgerKnown():
		return errLedgerUnknown
	}
	return nil
}

// ledgerKnown reports that the ledger was read a few seconds ago. It makes no calls, so health checks
// cost nothing.
func (k *kgsProgram) ledgerKnown() bool { return k.counters.fresh() != nil }
