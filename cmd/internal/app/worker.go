package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keypool/kgs"
	"keypool/web"
)

var (
	// errPoolUnseen says that a worker does not see the pool that it is to fill.
	errPoolUnseen = errors.New("the Redis pool cannot be seen")
	// errLedgerUnseen says that a key service does not see its ledger.
	errLedgerUnseen = errors.New("the key ledger cannot be read")
)

// StartWorker starts the program kgs: the refill worker of the Redis pool, the key service,
// or both, with an admin listener. What was opened before an error is closed again.
func StartWorker(ctx context.Context, s KGSSettings, log *slog.Logger) (_ *Program, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p := newProgram(log)
	defer func() {
		if err != nil {
			p.abandonStart()
		}
	}()
	if len(s.Clients) > 0 {
		if p.public, err = p.listen(ctx, "KGS_LISTEN_ADDR", s.ListenAddr); err != nil {
			return nil, err
		}
	}
	if p.admin, err = p.listen(ctx, "ADMIN_ADDR", s.AdminAddr); err != nil {
		return nil, err
	}
	c, err := openCore(ctx, s.Settings, &p.life, log)
	if err != nil {
		return nil, err
	}
	if err := c.openLedger(ctx); err != nil {
		return nil, err
	}
	w := &worker{core: c, counters: newLedgerWatch(c), started: time.Now()}
	c.life.background("ledger watch", p.fail, w.counters.run)
	if err := w.open(ctx, p.fail); err != nil {
		return nil, err
	}
	c.registry.MustRegister(newGauges(w.status, w.counters))
	p.serveAdmin(c, web.AdminConfig{Status: w.status, Ready: w.ready})
	if w.watch != nil {
		log.Info("filling the pool", slog.String("admin", localURL(p.admin.Addr())), slog.Int64("capacity_keys", s.PoolCapacity))
	}
	if p.public != nil {
		p.serveKeys(s, c, w.seesLedger)
		log.Info("serving keys", slog.String("url", localURL(p.public.Addr())), slog.String("admin", localURL(p.admin.Addr())),
			slog.Int("clients", len(s.Clients)))
	}
	return p, nil
}

// worker is what the program kgs consists of beside its listeners.
type worker struct {
	*core
	counters *ledgerWatch
	watch    *poolWatch // nil without a Redis pool
	started  time.Time
}

// open starts the refill worker, where there is a Redis, and who keeps the books.
func (w *worker) open(ctx context.Context, fail func(error)) error {
	if w.RedisURL == "" {
		w.life.onStop("ledger holder", func(ctx context.Context) error { return w.ledger.Release(ctx, w.holder) })
		w.keepBooks(fail, nil)
		return nil
	}
	pool, err := w.openRedisPool(ctx)
	if err != nil {
		return err
	}
	w.keepBooks(fail, pool)
	w.watch = w.watchPool(fail, watched{look: pool.Status, build: w.redisWorker, giveUp: fail})
	return nil
}

func (w *worker) status() web.Status {
	s := web.Status{State: string(kgs.StateOK), KeySource: "ledger", Since: w.started}
	if w.watch != nil {
		s = web.Status{KeySource: "redis-pool", CapacityKeys: &w.PoolCapacity}
		w.watch.describe(&s)
	}
	w.counters.describe(&s)
	return s
}

// ready reports why the program cannot do what it is for.
func (w *worker) ready(context.Context) error {
	switch {
	case w.watch != nil && !w.watch.Judgement().Known:
		return errPoolUnseen
	case w.watch == nil && !w.seesLedger():
		return errLedgerUnseen
	}
	return nil
}

// seesLedger asks nobody, so that whoever asks it costs nothing.
func (w *worker) seesLedger() bool { return w.counters.fresh() != nil }
