package refill

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keypool/kgs"
)

// State is the state of the pool as the dead man's switch assesses it.
type State string

// The states, from best to worst.
const (
	StateFilling State = "filling" // not yet full in this epoch, but growing
	StateOK      State = "ok"      // needs no action
	StateRestart State = "restart" // so low that the switch restarts the worker
	StatePage    State = "page"    // so low, or so unsafe, that an operator must act
)

// Alarm reports whether the state requires action.
func (s State) Alarm() bool { return s == StateRestart || s == StatePage }

const (
	lookInterval    = time.Second
	firstRestartGap = 10 * time.Second // between two restarts of the worker; doubles after each restart
	maxRestartGap   = 5 * time.Minute
	futileRestarts  = 3 // restarts without any new key before the switch gives up the process
)

// DeadManConfig configures a DeadMan.
type DeadManConfig struct {
	Capacity     int64 // keys in a full pool
	RestartBelow int64 // keys; the switch restarts the worker when the pool holds fewer
	PageBelow    int64 // keys; the switch pages when the pool holds fewer
	Look         func(context.Context) (Observation, error)
	Restart      func()          // replaces the worker; nil if this process has none
	GiveUp       func(error)     // ends this process when restarts do not help; nil: restarts continue
	Changed      func(Judgement) // receives each new state, in order; must not block; may be nil
	Logger       *slog.Logger
	Metrics      *kgs.Metrics
}

// DeadMan is a dead man's switch for a pool. It watches the size of the pool rather than the
// health of the worker: a worker may run and still not reach Redis, fail each
// push, or loop without work.
//
// The pool may be low while it fills for the first time in an epoch, as long as it grows. A pool
// that the switch cannot see for 10 s counts as empty. The switch also watches the runway. It
// raises an alarm when no keys arrive and the pool will be empty soon, however full the pool is
// now.
type DeadMan struct {
	cfg DeadManConfig

	mu    sync.Mutex
	last  Judgement
	level State // the state without regard to Observation.Unsafe

	seenAt    time.Time // when the switch last saw the pool
	peak      int64     // highest number of keys seen while filling
	grewAt    time.Time // when the pool last grew while filling
	supply    int64     // keys that workers have pushed in this epoch
	arrivedAt time.Time // when a key last arrived, or the pool was last full
	taken     kgs.Meter // keys that all servers take

	restartAt time.Time     // the switch does not restart the worker before this time
	gap       time.Duration // between the next restart and the one after it
	restarts  int           // restarts since a key last arrived
}

// Observation is the result of one look at the pool.
type Observation struct {
	kgs.PoolStatus
	Policy string // what the server of the pool does when its memory is full; "" if the server does not report it
	Unsafe string // why the pool may lose keys that no server took; "" for a safe pool
}

// Judgement is the last observation of the switch, and its conclusion.
type Judgement struct {
	State State
	Since time.Time // when State last changed
	Pool  Observation
	Known bool    // whether Pool is current; if not, Pool is the last known observation
	Rate  float64 // keys per second that all servers together take from the pool
}

// Runway returns for how many seconds the pool lasts at the current rate if no more keys arrive.
// It is 0 for an empty pool. It is unknown while no server takes keys, and while the switch
// cannot see the pool.
func (j Judgement) Runway() (seconds float64, known bool) {
	switch {
	case !j.Known:
		return 0, false
	case j.Pool.Keys == 0:
		return 0, true // servers get no keys from an empty pool, so there is no rate
	case j.Rate < 0.01:
		return 0, false
	}
	return float64(j.Pool.Keys) / j.Rate, true
}

// NewDeadMan returns a switch in StateFilling. Run starts the watch.
func NewDeadMan(cfg DeadManConfig) *DeadMan {
	now := time.Now()
	return &DeadMan{
		cfg: cfg, last: Judgement{State: StateFilling, Since: now}, level: StateFilling,
		seenAt: now, grewAt: now, arrivedAt: now, taken: kgs.NewMeter(takenWindow), gap: firstRestartGap,
	}
}

// Judgement returns the last observation and the conclusion from it. It does not block and may be
// called concurrently.
func (d *DeadMan) Judgement() Judgement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Run looks at the pool once a second until ctx ends. It always returns nil.
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

// action is what a look at the pool requires.
type action int

const (
	doNothing action = iota
	doRestart        // restart the worker
	doGiveUp         // give up this process
)

func (d *DeadMan) act(due action, keys int64) {
	switch {
	case due == doNothing || d.cfg.Restart == nil:
	case due == doGiveUp && d.cfg.GiveUp != nil:
		d.cfg.GiveUp(fmt.Errorf("dead man's switch: after %d restarts of the worker no key has reached the pool, "+
			"which held %d when it was last seen; this process ends so that its supervisor restarts it", futileRestarts, keys))
	default:
		d.cfg.Metrics.CountRestart()
		d.cfg.Logger.Warn("restarting the refill worker", slog.Int64("pool_keys", keys))
		d.cfg.Restart()
	}
}
