package app

import (
	"context"

	"keypool/cmd/internal/alert"
	"keypool/kgs"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"
)

// poolWatch is the dead man's switch of a pool and the worker that it restarts.
type poolWatch struct {
	*refill.DeadMansSwitch
	worker *refill.Supervisor // nil if another process refills the pool
}

// watched describes a pool for its dead man's switch.
type watched struct {
	look    func(context.Context) (refill.Observation, error)
	eachKey bool                 // whether Taken in an observation grows with each creation
	build   func() refill.Runner // nil if another process refills the pool
	giveUp  func(error)          // ends the program; nil if the program also works without its worker
}

// observe returns a function that observes the status of a pool that cannot evict keys.
func observe(status func(context.Context) (kgs.PoolStatus, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		return refill.Observation{PoolStatus: s}, err
	}
}

// observeRedis returns a function that observes the status of a Redis pool. The observation also says
// whether Redis may evict keys, and why the pool may lose keys or needs an operator.
func observeRedis(status func(context.Context) (redispool.Status, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		seen := refill.Observation{PoolStatus: s.PoolStatus, Unsafe: s.Unsafe()}
		if s.Policy != "" {
			seen.MayEvict = new(s.Evicts())
		}
		return seen, err
	}
}

// watchPool starts the dead man's switch, the worker and the delivery of alerts.
func (c *Core) watchPool(fail func(error), what watched) *poolWatch {
	cfg := refill.DeadMansSwitchConfig{
		Capacity: c.PoolCapacity, RestartBelow: c.RestartBelow.Keys(c.PoolCapacity), PageBelow: c.PageBelow.Keys(c.PoolCapacity),
		Look: what.look, EachKey: what.eachKey, GiveUp: what.giveUp, Logger: c.Log, Metrics: c.metrics,
	}
	c.showLevels(cfg.RestartBelow, cfg.PageBelow)
	w := &poolWatch{}
	if what.build != nil {
		w.worker = refill.NewSupervisor(what.build, c.Log)
		c.life.Background("worker", fail, w.worker.Run)
		cfg.Restart = func() {
			c.renewConnections() // renews only the connections to the ledger; a new worker opens new connections to Redis
			w.worker.Restart()
		}
	}
	if c.AlertWebhook != "" {
		alerts := alert.New(alert.Config{
			URL: string(c.AlertWebhook), CapacityKeys: c.PoolCapacity, Instance: c.instance, Registerer: c.Registry, Logger: c.Log,
		})
		c.life.Background("alerts", fail, alerts.Run)
		cfg.Changed = func(j refill.Judgement) { alerts.Changed(alertEvent(j)) }
	}
	w.DeadMansSwitch = refill.NewDeadMansSwitch(cfg)
	c.life.Background("dead man's switch", fail, w.Run)
	return w
}

// alertEvent converts a judgement of the dead man's switch to an event of package alert.
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
