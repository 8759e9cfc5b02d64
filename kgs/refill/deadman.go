package refill

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keypool/kgs"
)

// State is the state of a pool, as a [DeadMansSwitch] determines it.
type State string

// The states of a pool.
const (
	StateFilling State = "filling" // the pool is not yet full in this epoch, but it grows
	StateOK      State = "ok"      // the pool needs no action
	StateRestart State = "restart" // the pool is so low that the switch restarts the worker
	StatePage    State = "page"    // an operator must act, because the pool is very low or is not safe
)

// Alarm reports whether the state requires action.
func (s State) Alarm() bool { return s == StateRestart || s == StatePage }

const (
	lookInterval    = time.Second
	firstRestartGap = 10 * time.Second // time between the first two restarts of the worker; each later gap is twice as long
	maxRestartGap   = 5 * time.Minute
	futileRestarts  = 3 // the switch ends the process if no key has arrived after this number of restarts
)

// DeadMansSwitchConfig configures a DeadMansSwitch.
type DeadMansSwitchConfig struct {
	Capacity     int64 // keys in a full pool
	RestartBelow int64 // the switch restarts the worker when the pool holds fewer keys
	PageBelow    int64 // the switch pages an operator when the pool holds fewer keys
	Look         func(context.Context) (Observation, error)
	EachKey      bool            // whether PoolStatus.Taken grows with each creation; false if servers take whole batches from the pool
	Restart      func()          // replaces the worker; nil if this process has no worker
	GiveUp       func(error)     // ends this process when restarts do not help; if nil, the restarts continue
	Changed      func(Judgement) // receives each new state, in order; must not block; may be nil
	Logger       *slog.Logger
	Metrics      *kgs.Metrics
}

// DeadMansSwitch is a dead man's switch for a pool. It watches the size of the pool rather than the
// worker, because a running worker may push no keys. For example, the worker may fail to reach
// Redis, fail every push, or loop without work.
//
// A pool that fills for the first time in an epoch causes no alarm while it grows. A pool that the switch cannot read
// for 10 s counts as empty. The switch also watches the runway, which is the time until the pool is empty at the
// current rate. The switch raises an alarm if the runway is short, no key has arrived for 10 s, and the pool was not
// full in this time (see LowWater). This alarm does not depend on RestartBelow and PageBelow.
type DeadMansSwitch struct {
	cfg DeadMansSwitchConfig

	mu    sync.Mutex
	last  Judgement
	level State // state that follows from the size and the runway of the pool, without regard to Observation.Unsafe

	seenAt    time.Time // time of the last successful look at the pool
	peak      int64     // highest number of keys observed while the pool fills
	grewAt    time.Time // time at which the filling pool last grew
	supply    int64     // number of keys that workers had pushed in this epoch at the last look
	arrivedAt time.Time // time at which a key last arrived or the pool was last full
	taken     kgs.Meter // rate at which all servers take keys
	takenAt   time.Time // time of the last look at which the number of taken keys had grown

	restartAt time.Time     // the switch does not restart the worker before this time
	gap       time.Duration // time between the next restart and the restart after it
	restarts  int           // number of restarts since a key last arrived
}

// Observation is the result of one look at the pool.
type Observation struct {
	kgs.PoolStatus
	MayEvict *bool  // whether the server of the pool may evict keys when its memory is full; nil if this is unknown
	Unsafe   string // reason why the pool may lose keys or needs an operator; "" for a safe pool
}

// Judgement is the last observation of the switch and the state that follows from it.
type Judgement struct {
	State State
	Since time.Time // time at which State last changed
	Pool  Observation
	Known bool    // true if Pool is current; otherwise Pool is the last known observation
	Rate  float64 // keys per second that all servers together take from the pool; 0 if no server takes keys
}

// LeastRate is the rate, in keys per second, below which a service counts as idle.
const LeastRate = 0.01

// Runway returns the seconds until the pool is empty at the current rate if no more keys arrive. If servers have emptied
// the pool, the runway is 0, even if the servers have not used the keys yet. The runway is unknown in three cases:
//
//   - The switch cannot read the pool.
//   - The pool has keys, but no server takes any.
//   - The pool is empty in StateFilling, and no key has arrived in this epoch yet.
func (j Judgement) Runway() (seconds float64, known bool) {
	switch {
	case !j.Known:
		return 0, false
	case j.Pool.Keys == 0 && (j.Pool.Pushed > 0 || j.State != StateFilling):
		return 0, true // servers get no keys from an empty pool, so there is no rate
	case j.Rate < LeastRate:
		return 0, false
	}
	return float64(j.Pool.Keys) / j.Rate, true
}

// poolKeys returns the attribute pool_keys of a log line. It returns no attribute while the switch cannot read the pool:
// Pool.Keys is then an older number of keys, which the switch does not use for its decisions.
func (j Judgement) poolKeys() []any {
	if !j.Known {
		return nil
	}
	return []any{slog.Int64("pool_keys", j.Pool.Keys)}
}

// found describes the result of the last look at the pool.
func (j Judgement) found() string {
	if !j.Known {
		return "could not be read"
	}
	return fmt.Sprintf("held %d keys", j.Pool.Keys)
}

// NewDeadMansSwitch returns a switch in StateFilling. Run starts the watch.
func NewDeadMansSwitch(cfg DeadMansSwitchConfig) *DeadMansSwitch {
	now := time.Now()
	return &DeadMansSwitch{
		cfg: cfg, last: Judgement{State: StateFilling, Since: now}, level: StateFilling,
		seenAt: now, grewAt: now, arrivedAt: now, taken: kgs.NewMeter(takenWindow), gap: firstRestartGap,
	}
}

// Judgement returns the last judgement. It does not block and may be called concurrently.
func (d *DeadMansSwitch) Judgement() Judgement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Run looks at the pool once a second until ctx ends. It always returns nil.
func (d *DeadMansSwitch) Run(ctx context.Context) error {
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

func (d *DeadMansSwitch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	pool, err := d.cfg.Look(ctx)
	before := d.Judgement().State
	due := d.observe(time.Now(), pool, err == nil)
	after := d.Judgement()
	if after.State != before && d.cfg.Changed != nil {
		d.cfg.Changed(after)
	}
	d.act(due, after)
}

// action is the reaction that a look at the pool requires.
type action int

const (
	doNothing action = iota
	doRestart        // restart the worker
	doGiveUp         // end this process
)

func (d *DeadMansSwitch) act(due action, j Judgement) {
	switch {
	case due == doNothing || d.cfg.Restart == nil:
	case due == doGiveUp && d.cfg.GiveUp != nil:
		d.cfg.GiveUp(fmt.Errorf("dead man's switch: no key reached the pool after %d restarts of the worker; "+
			"at the last look, the pool %s; this process ends so that a process supervisor starts it again", futileRestarts, j.found()))
	default:
		d.cfg.Metrics.CountRestart()
		d.cfg.Logger.Warn("restarting the refill worker", j.poolKeys()...)
		d.cfg.Restart()
	}
}
