package app

import (
	"context"
	"sync/atomic"
	"time"

	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"
)

// poolWatch is the dead man's switch of a pool and, where this process has one, the
// worker that the switch restarts.
type poolWatch struct {
	*refill.DeadMan
	worker *refill.Supervisor // nil when another process refills
}

// watched is what a switch watches, and what it can do about it.
type watched struct {
	look   func(context.Context) (refill.Observation, error)
	build  func() *refill.Worker // nil when another process refills
	giveUp func(error)           // ends the program; nil where there is more to it than the worker
}

// observe makes a look out of the status of a pool that loses no keys by itself.
func observe(status func(context.Context) (kgs.PoolStatus, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		return refill.Observation{PoolStatus: s}, err
	}
}

// observeRedis makes a look out of the status of a Redis pool, which Redis may evict.
func observeRedis(status func(context.Context) (redispool.Status, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		return refill.Observation{PoolStatus: s.PoolStatus, Policy: s.Policy, Unsafe: s.Unsafe()}, err
	}
}

// watchPool starts the switch, the worker, and who tells the webhook.
func (c *core) watchPool(fail func(error), what watched) *poolWatch {
	cfg := refill.DeadManConfig{
		Capacity: c.PoolCapacity, RestartBelow: c.RestartBelow, PageBelow: c.PageBelow,
		Look: what.look, GiveUp: what.giveUp, Logger: c.log, Metrics: c.metrics,
	}
	w := &poolWatch{}
	if what.build != nil {
		w.worker = refill.NewSupervisor(what.build, c.log)
		c.life.background("worker", fail, w.worker.Run)
		cfg.Restart = func() {
			c.renewConnections() // those to Redis are each worker's own
			w.worker.Restart()
		}
	}
	if c.AlertWebhook != "" {
		alerts := newAlerter(c.Settings, c.instance, c.registry, c.log)
		c.life.background("alerts", fail, alerts.run)
		cfg.Changed = alerts.changed
	}
	w.DeadMan = refill.NewDeadMan(cfg)
	c.life.background("dead man's switch", fail, w.Run)
	return w
}

// lookInterval is how often the counters are read, and lookStale how old they may be
// before they count as unknown.
const (
	lookInterval = 2 * time.Second
	lookStale    = 3 * lookInterval
)

// ledgerWatch keeps a recent copy of the ledger's counters, so that neither a scrape nor
// a fallback asks the database.
type ledgerWatch struct {
	core  *core
	meter kgs.Meter // of numbers reserved
	last  atomic.Pointer[ledgerLook]
}

type ledgerLook struct {
	ledger.Counters
	rate float64 // numbers that all processes reserve in a second
	at   time.Time
}

// reserveWindow is long because a pool is refilled a tenth at a time, and has to be filled
// only once.
const reserveWindow = 24 * time.Hour

func newLedgerWatch(c *core) *ledgerWatch {
	return &ledgerWatch{core: c, meter: kgs.NewMeter(reserveWindow)}
}

func (w *ledgerWatch) run(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		w.read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// read leaves the last look in place when the database is away; it goes stale by itself.
func (w *ledgerWatch) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	counters, err := w.core.ledger.Counters(ctx)
	if err != nil {
		w.core.log.Debug("the ledger's counters cannot be read", "error", err)
		return
	}
	w.saw(counters)
}

func (w *ledgerWatch) saw(counters ledger.Counters) {
	now := time.Now()
	w.meter.Sample(counters.Reserved(), now)
	w.last.Store(&ledgerLook{Counters: counters, rate: w.meter.Rate(), at: now})
}

// fresh is the last look, nil when it is too old to be told.
func (w *ledgerWatch) fresh() *ledgerLook {
	if look := w.last.Load(); look != nil && time.Since(look.at) < lookStale {
		return look
	}
	return nil
}

// length is that of the codes handed out at present, by the last look however old.
func (w *ledgerWatch) length() int {
	if look := w.last.Load(); look != nil {
		return look.Current(w.core.CodeLength).Length
	}
	return w.core.CodeLength
}
