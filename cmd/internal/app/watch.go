package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"keypool/cmd/internal/alert"
	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"
)

// poolWatch is the dead man's switch of a pool and the worker that it restarts.
type poolWatch struct {
	*refill.DeadMan
	worker *refill.Supervisor // nil when another process refills
}

// watched is a pool that a dead man's switch watches.
type watched struct {
	look   func(context.Context) (refill.Observation, error)
	build  func() *refill.Worker // nil when another process refills
	giveUp func(error)           // ends the program; nil where it does more than refill
}

// observe makes an observation of the status of a pool that loses no keys by itself.
func observe(status func(context.Context) (kgs.PoolStatus, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		return refill.Observation{PoolStatus: s}, err
	}
}

// observeRedis makes an observation of the status of a Redis pool, whose keys Redis may evict.
func observeRedis(status func(context.Context) (redispool.Status, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		return refill.Observation{PoolStatus: s.PoolStatus, Policy: s.Policy, Unsafe: s.Unsafe()}, err
	}
}

// watchPool starts the dead man's switch, the worker and the delivery of alerts.
func (c *Core) watchPool(fail func(error), what watched) *poolWatch {
	cfg := refill.DeadManConfig{
		Capacity: c.PoolCapacity, RestartBelow: c.RestartBelow.Keys(c.PoolCapacity), PageBelow: c.PageBelow.Keys(c.PoolCapacity),
		Look: what.look, GiveUp: what.giveUp, Logger: c.Log, Metrics: c.metrics,
	}
	w := &poolWatch{}
	if what.build != nil {
		w.worker = refill.NewSupervisor(what.build, c.Log)
		c.life.background("worker", fail, w.worker.Run)
		cfg.Restart = func() {
			c.renewConnections() // each worker has its own connections to Redis
			w.worker.Restart()
		}
	}
	if c.AlertWebhook != "" {
		alerts := alert.New(alert.Config{
			URL: string(c.AlertWebhook), CapacityKeys: c.PoolCapacity, Instance: c.instance, Registerer: c.Registry, Logger: c.Log,
		})
		c.life.background("alerts", fail, alerts.Run)
		cfg.Changed = func(j refill.Judgement) { alerts.Changed(alertEvent(j)) }
	}
	w.DeadMan = refill.NewDeadMan(cfg)
	c.life.background("dead man's switch", fail, w.Run)
	return w
}

// alertEvent is a change of the switch's state as alerts see it.
func alertEvent(j refill.Judgement) alert.Event {
	e := alert.Event{State: alert.State(j.State), At: j.Since}
	if j.Known {
		e.PoolKeys = &j.Pool.Keys
	}
	if runway, known := j.Runway(); known {
		e.RunwaySeconds = &runway
	}
	return e
}

// lookInterval is the time between two reads of the counters. Counters older than lookStale are
// unknown.
const (
	lookInterval = 2 * time.Second
	lookStale    = 3 * lookInterval
)

// ledgerWatch keeps a recent copy of the ledger's counters, so that neither a scrape nor a fallback
// queries the database.
type ledgerWatch struct {
	core  *Core
	meter kgs.Meter // of numbers reserved
	last  atomic.Pointer[ledgerLook]
}

type ledgerLook struct {
	ledger.Counters
	rate float64 // numbers a second that all processes reserve
	at   time.Time
}

// reserveWindow is the time over which the rate is measured. It is long because a pool is refilled a
// tenth at a time, and because its first fill should not dominate the rate.
const reserveWindow = 24 * time.Hour

func newLedgerWatch(c *Core) *ledgerWatch {
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

// read keeps the last counters while the database is unreachable; they become stale by time.
func (w *ledgerWatch) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	counters, err := w.core.ledger.Counters(ctx)
	if err != nil {
		w.core.Log.Debug("read counters of the ledger", slog.Any("error", err))
		return
	}
	w.saw(counters)
}

func (w *ledgerWatch) saw(counters ledger.Counters) {
	now := time.Now()
	w.meter.Sample(counters.Reserved(), now)
	w.last.Store(&ledgerLook{Counters: counters, rate: w.meter.Rate(), at: now})
}

// fresh is the last look, or nil when it is stale.
func (w *ledgerWatch) fresh() *ledgerLook {
	if look := w.last.Load(); look != nil && time.Since(look.at) < lookStale {
		return look
	}
	return nil
}

// length is the code length in use according to the last look, however old.
func (w *ledgerWatch) length() int {
	if look := w.last.Load(); look != nil {
		return look.Current(w.core.CodeLength).Length
	}
	return w.core.CodeLength
}
