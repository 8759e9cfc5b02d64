package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keypool/kgs"
	"keypool/web/admin"
)

var (
	// errPoolUnseen says that a worker does not see the pool that it is to fill.
	errPoolUnseen = errors.New("the Redis pool cannot be seen")
	// errLedgerUnseen says that a key service does not see its ledger.
	errLedgerUnseen = errors.New("the key ledger cannot be read")
)

// StartKGS starts the program kgs: the refill worker of the Redis pool, the key service,
// or both, with an admin listener. What was opened before an error is closed again.
func StartKGS(ctx context.Context, s KGSSettings, log *slog.Logger) (*Program, error) {
	var public *address
	if len(s.Clients) > 0 {
		public = &address{"KGS_LISTEN_ADDR", s.ListenAddr}
	}
	return startProgram(ctx, s.Settings, public, log, func(ctx context.Context, p *Program, c *core) error {
		k := &kgsProgram{core: c, serves: public != nil, counters: newLedgerWatch(c), started: time.Now()}
		c.life.background("ledger watch", p.fail, k.counters.run)
		if err := c.inBooks(ctx, p.fail, func() error { return k.open(ctx, p.fail) }); err != nil {
			return err
		}
		c.registry.MustRegister(newGauges(k.status, k.counters))
		p.serveAdmin(c, admin.Config{Status: k.status, Ready: k.ready})
		if k.watch != nil {
			log.Info("filling the pool", slog.String("admin", localURL(p.admin.Addr())), slog.Int64("capacity_keys", s.PoolCapacity))
		}
		if k.serves {
			p.serveKeys(s, c, k.seesLedger)
			log.Info("serving keys", slog.String("url", localURL(p.public.Addr())), slog.String("admin", localURL(p.admin.Addr())),
				slog.Int("clients", len(s.Clients)))
		}
		return nil
	})
}

// kgsProgram is what the program kgs consists of beside its listeners.
type kgsProgram struct {
	*core
	serves   bool // keys to other programs
	counters *ledgerWatch
	watch    *poolWatch // nil without a Redis pool
	started  time.Time
}

// open starts the refill worker, where there is a Redis.
func (k *kgsProgram) open(ctx context.Context, fail func(error)) error {
	if k.RedisURL == "" {
		return nil
	}
	if err := k.openRedisPool(ctx); err != nil {
		return err
	}
	k.watch = k.watchPool(fail, watched{look: k.pool.Status, build: k.redisWorker, giveUp: fail})
	return nil
}

func (k *kgsProgram) status() admin.Status {
	s := admin.Status{State: string(kgs.StateOK), KeySource: "ledger", Since: k.started}
	if k.watch != nil {
		s = admin.Status{KeySource: "redis-pool", CapacityKeys: &k.PoolCapacity}
		k.watch.describe(&s)
	}
	k.counters.describe(&s)
	return s
}

// ready reports why the program cannot do what it is for.
func (k *kgsProgram) ready(context.Context) error {
	switch {
	case k.watch != nil && !k.watch.Judgement().Known:
		return errPoolUnseen
	case k.serves && !k.seesLedger():
		return errLedgerUnseen
	}
	return nil
}

// seesLedger asks nobody, so that whoever asks it costs nothing.
func (k *kgsProgram) seesLedger() bool { return k.counters.fresh() != nil }
