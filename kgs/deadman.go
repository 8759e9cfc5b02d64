package kgs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// State is the dead man's switch's judgement of the pool.
type State string

// The states, from best to worst.
const (
	StateFilling State = "filling" // not yet full in this epoch, and getting there
	StateOK      State = "ok"
	StateRestart State = "restart" // so low that the worker is restarted
	StatePage    State = "page"    // so low that a human is needed
)

const (
	lookInterval    = time.Second
	stillAfter      = 10 * time.Second // a filling that does not grow, or a pool unseen, for so long is in trouble
	firstRestartGap = 10 * time.Second // between two restarts of the worker, doubling
	maxRestartGap   = 5 * time.Minute
)

// DeadManConfig is what a dead man's switch is made of.
type DeadManConfig struct {
	Capacity     int64 // keys in a full pool
	RestartBelow int64 // keys
	PageBelow    int64 // keys
	Look         func(context.Context) (PoolStatus, error)
	Restart      func() // puts a new worker in place; nil where this process has none
	Logger       *slog.Logger
	Metrics      *Metrics
}

// DeadMan watches the size of the pool, not the health of the worker: a worker can
// be alive and yet not reach Redis, fail every push, or spin. It allows a pool to be
// low while it fills for the first time in an epoch, as long as it grows; a pool
// that it cannot see for a while counts as empty.
type DeadMan struct {
	cfg DeadManConfig

	mu        sync.Mutex
	last      Judgement
	peak      int64     // the most keys seen while filling
	grewAt    time.Time // when the filling last made progress
	seenAt    time.Time // when the pool was last seen
	restartAt time.Time // not before then is the worker restarted again
	gap       time.Duration
}

// Judgement is what the switch last saw, and made of it.
type Judgement struct {
	State State
	Since time.Time // when it became that
	Pool  PoolStatus
	Known bool // whether Pool is the present one, not an earlier
}

// NewDeadMan makes a switch that is filling since now; Run watches.
func NewDeadMan(cfg DeadManConfig) *DeadMan {
	now := time.Now()
	return &DeadMan{
		cfg: cfg, last: Judgement{State: StateFilling, Since: now},
		grewAt: now, seenAt: now, gap: firstRestartGap,
	}
}

// Judgement does not block.
func (d *DeadMan) Judgement() Judgement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Run looks at the pool once a second until ctx ends.
func (d *DeadMan) Run(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		d.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *DeadMan) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	pool, err := d.cfg.Look(ctx)
	if restart := d.observe(time.Now(), pool, err == nil); restart && d.cfg.Restart != nil {
		d.cfg.Metrics.restarts.Inc()
		d.cfg.Logger.Warn("restarting the refill worker", slog.Int64("pool_keys", pool.Keys))
		d.cfg.Restart()
	}
}

// observe takes one look into account and tells whether the worker is to be restarted.
func (d *DeadMan) observe(now time.Time, pool PoolStatus, known bool) (restart bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last.Known = known
	if known {
		if pool.Epoch != d.last.Pool.Epoch {
			d.enter(StateFilling, now) // another pool, which has never been full
			d.peak, d.grewAt = 0, now
		}
		d.seenAt, d.last.Pool = now, pool
	}
	if known || now.Sub(d.seenAt) >= stillAfter {
		d.enter(d.judge(now, pool.Keys), now)
	}
	return d.restartDue(now)
}

// judge is the state of a pool that holds keys; of one that cannot be seen, none.
func (d *DeadMan) judge(now time.Time, keys int64) State {
	if d.last.State == StateFilling {
		if keys > d.peak {
			d.peak, d.grewAt = keys, now
		}
		if keys < LowWater(d.cfg.Capacity) && now.Sub(d.grewAt) < stillAfter {
			return StateFilling
		}
	}
	switch {
	case keys < d.cfg.PageBelow:
		return StatePage
	case keys < d.cfg.RestartBelow:
		return StateRestart
	}
	return StateOK
}

func (d *DeadMan) enter(next State, now time.Time) {
	if next == d.last.State {
		return
	}
	d.cfg.Logger.Info("the state of the pool changed", slog.String("state", string(next)),
		slog.String("previous", string(d.last.State)), slog.Int64("pool_keys", d.last.Pool.Keys))
	if next == StatePage {
		d.cfg.Metrics.pages.Inc()
	}
	d.last.State, d.last.Since = next, now
}

// restartDue tells whether to restart the worker now: at once when the pool gets low,
// then again and again with growing gaps for as long as that did not help.
func (d *DeadMan) restartDue(now time.Time) bool {
	if d.last.State == StateOK || d.last.State == StateFilling {
		d.restartAt, d.gap = time.Time{}, firstRestartGap
		return false
	}
	if now.Before(d.restartAt) {
		return false
	}
	d.restartAt, d.gap = now.Add(d.gap), min(2*d.gap, maxRestartGap)
	return true
}
