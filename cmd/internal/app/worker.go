package app

import (
	"context"
	"errors"
	"log/slog"

	"keypool/web"
)

// errPoolUnseen says that a worker does not see the pool that it is to fill.
var errPoolUnseen = errors.New("the Redis pool cannot be seen")

// StartWorker starts the refill worker alone, with an admin listener. What was opened
// before an error is closed again.
func StartWorker(ctx context.Context, s Settings, log *slog.Logger) (_ *Program, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p := newProgram(log)
	defer func() {
		if err != nil {
			p.abandonStart()
		}
	}()
	if p.admin, err = p.listen(ctx, "ADMIN_ADDR", s.AdminAddr); err != nil {
		return nil, err
	}
	c, err := openCore(ctx, s, &p.life, log)
	if err != nil {
		return nil, err
	}
	if err := c.openLedger(ctx); err != nil {
		return nil, err
	}
	pool, err := c.openRedisPool(ctx)
	if err != nil {
		return nil, err
	}
	counters := newLedgerWatch(c)
	c.life.background("ledger watch", p.fail, counters.run)
	c.keepBooks(p.fail, pool)
	watch := c.watchPool(p.fail, watched{look: pool.Status, build: c.redisWorker, giveUp: p.fail})
	status := func() web.Status { return workerStatus(c, watch, counters) }
	c.registry.MustRegister(newGauges(status, counters))
	p.serveAdmin(c, web.AdminConfig{
		Status: status,
		Ready: func(context.Context) error {
			if !watch.Judgement().Known {
				return errPoolUnseen
			}
			return nil
		},
	})
	log.Info("filling the pool", slog.String("admin", localURL(p.admin.Addr())), slog.Int64("capacity_keys", s.PoolCapacity))
	return p, nil
}

func workerStatus(c *core, watch *poolWatch, counters *ledgerWatch) web.Status {
	s := web.Status{KeySource: "redis-pool", CapacityKeys: &c.PoolCapacity}
	watch.describe(&s)
	counters.describe(&s)
	return s
}
