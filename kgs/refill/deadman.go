package refill

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keypool/kgs"
)

// State is the dead man's switch's judgement of the pool.
type State string

// The states, from best to worst.
const (
	StateFilling State = "filling" // not yet full in this epoch, and getting there
	StateOK      State = "ok"
	StateRestart State = "restart" // so low that the worker is restarted
	StatePage    State = "page"    // so low that a human is needed, or not safe
)

// Alarm reports that the state is one in which something has to be done.
func (s State) Alarm() bool { return s == StateRestart || s == StatePage }

const (
	lookInterval    = time.Second
	firstRestartGap = 10 * time.Second // between two restarts of the worker, doubling
	maxRestartGap   = 5 * time.Minute
	vainRestarts    = 3 // in a row, before the whole process is given up
)

// DeadManConfig is what a dead man's switch is made of.
type DeadManConfig struct {
	Capacity     int64 // keys in a full pool
	RestartBelow int64 // keys
	PageBelow    int64 // keys
	Look         func(context.Context) (Observation, error)
	Restart      func()          // puts a new worker in place; nil where this process has none
	GiveUp       func(error)     // ends a process whose restarts of the worker are in vain; nil: they go on
	Changed      func(Judgement) // is told of each new state, in order; must not block; nil for nobody
	Logger       *slog.Logger
	Metrics      *kgs.Metrics
}

// DeadMan watches the size of the pool, not the health of the worker: a worker can
// be alive and yet not reach Redis, fail every push, or spin. It allows a pool to be
// low while it fills for the first time in an epoch, as long as it grows; a pool
// that it cannot see for a while counts as empty. It watches time too: a pool that
// nothing reaches is in trouble when it is about to be used up, however full it is.
type DeadMan struct {
	cfg DeadManConfig

	mu    sync.Mutex
	last  Judgement
	level State // by keys and time alone

	seenAt    time.Time // when the pool was last seen
	peak      int64     // the most keys seen while filling
	grewAt    time.Time // when the filling last made progress
	supply    int64     // keys that workers ever brought into the pool in this epoch
	arrivedAt time.Time // when the supply last grew, or the pool needed nothing
	taken     kgs.Meter // of keys that all servers take

	restartAt time.Time // not before then is the worker restarted again
	gap       time.Duration
	vain      int // restarts since a key last reached the pool
}

// Observation is what one look at the pool found.
type Observation struct {
	kgs.PoolStatus
	Policy string // what the pool's server does when its memory is full; "" if it does not say
	Unsafe string // why the pool may lose keys that no server took; "" for a safe pool
}

// Judgement is what the switch last saw, and made of it.
type Judgement struct {
	State State
	Since time.Time // when it became that
	Pool  Observation
	Known bool    // whether Pool is the present one, not an earlier
	Rate  float64 // keys per second that all servers together take from the pool
}

// Runway is for how many seconds the pool lasts at the present rate if nothing more
// reaches it. It is not known while nobody takes any, or the pool cannot be seen.
func (j Judgement) Runway() (seconds float64, known bool) {
	switch {
	case !j.Known:
		return 0, false
	case j.Pool.Keys == 0:
		return 0, true // who finds it empty takes nothing, so there is no rate
	case j.Rate < 0.01:
		return 0, false
	}
	return float64(j.Pool.Keys) / j.Rate, true
}

// NewDeadMan makes a switch that is filling since now; Run watches.
func NewDeadMan(cfg DeadManConfig) *DeadMan {
	now := time.Now()
	return &DeadMan{
		cfg: cfg, last: Judgement{State: StateFilling, Since: now}, level: StateFilling,
		seenAt: now, grewAt: now, arrivedAt: now, taken: kgs.NewMeter(takenWindow), gap: firstRestartGap,
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
	before := d.Judgement().State
	due := d.observe(time.Now(), pool, err == nil)
	after := d.Judgement()
	if after.State != before && d.cfg.Changed != nil {
		d.cfg.Changed(after)
	}
	d.act(due, after.Pool.Keys)
}

// remedy is what a look may call for.
type remedy int

const (
	doNothing remedy = iota
	doRestart        // the worker
	doGiveUp         // this process
)

func (d *DeadMan) act(due remedy, keys int64) {
	switch {
	case due == doNothing || d.cfg.Restart == nil:
	case due == doGiveUp && d.cfg.GiveUp != nil:
		d.cfg.GiveUp(fmt.Errorf("dead man's switch: after %d restarts of the worker no key has reached the pool, "+
			"which held %d when it was last seen; this process ends to be started anew", vainRestarts, keys))
	default:
		d.cfg.Metrics.CountRestart()
		d.cfg.Logger.Warn("restarting the refill worker", slog.Int64("pool_keys", keys))
		d.cfg.Restart()
	}
}
