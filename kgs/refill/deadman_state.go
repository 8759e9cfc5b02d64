package refill

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"keypool/kgs"
)

const (
	stillAfter  = 10 * time.Second // time without new keys, or without a successful look, after which an alarm is due
	takenWindow = 15 * time.Second // time over which the rate of taken keys is measured; it is long, because servers take whole batches
	idleAfter   = 30 * time.Second // if EachKey is true, the service counts as idle when no key was taken for this time

	// Limits of the runway in seconds. The switch raises an alarm if the runway is below a limit, no key has arrived
	// for stillAfter, and the pool was not full in this time. The alarm ends at twice the limit, so that small changes
	// of the rate do not start and end the alarm repeatedly.
	restartRunway = 60
	pageRunway    = 30
)

// observe records one look at the pool and returns the action that the look requires. known is false if the switch could
// not read the pool.
func (d *DeadMansSwitch) observe(now time.Time, pool Observation, known bool) action {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last.Known = known
	if known {
		d.see(now, pool)
	}
	keys := pool.Keys
	if !known {
		keys = 0 // a failed look may also return a number of keys, but if the pool lost its state, servers cannot take these keys
	}
	judged := known || now.Sub(d.seenAt) >= stillAfter
	if judged || pool.Unsafe != "" {
		var why string
		if judged {
			d.level, why = d.assess(now, keys)
		}
		state := d.level
		if unsafe := cmp.Or(pool.Unsafe, d.last.Pool.Unsafe); unsafe != "" {
			state, why = StatePage, unsafe
		}
		d.enter(state, why, now)
	}
	return d.due(now)
}

// see records an observation of the pool. It notes whether keys arrived and measures the rate at
// which servers take keys.
func (d *DeadMansSwitch) see(now time.Time, pool Observation) {
	if pool.Epoch != d.last.Pool.Epoch { // the pool of a new epoch has never been full
		// A pool that was still filling keeps its timers. Otherwise a series of epochs in which the pool
		// never becomes full would look like progress.
		if d.level != StateFilling {
			d.level, d.peak, d.grewAt, d.arrivedAt = StateFilling, 0, now, now
		}
		d.supply, d.taken = 0, kgs.NewMeter(takenWindow)
	}
	supply := pool.Pushed
	if supply > d.supply {
		d.restarts = 0
	}
	if supply > d.supply || pool.Keys >= LowWater(d.cfg.Capacity) {
		d.arrivedAt = now
	}
	d.supply = supply
	d.taken.Sample(pool.Taken, now)
	if pool.Taken > d.last.Pool.Taken {
		d.takenAt = now
	}
	d.seenAt, d.last.Pool, d.last.Rate = now, pool, d.takenRate(now)
}

// takenRate returns the rate at which servers take keys. The average takes minutes to fall below LeastRate after the
// last key. If the switch observes each creation (EachKey), the rate is 0 as soon as no key was taken for idleAfter. If
// the switch observes only whole batches, this rule does not apply. The reason is that a server that creates few links
// may take no batch for longer than idleAfter, although it is not idle.
func (d *DeadMansSwitch) takenRate(now time.Time) float64 {
	if d.cfg.EachKey && now.Sub(d.takenAt) >= idleAfter {
		return 0
	}
	return d.taken.Rate()
}

// assess returns the state of a pool that holds the given number of keys, and the reason for the
// state. keys is 0 if the switch cannot read the pool.
func (d *DeadMansSwitch) assess(now time.Time, keys int64) (State, string) {
	if d.level == StateFilling && d.fills(now, keys) {
		return StateFilling, ""
	}
	runway, measured := d.last.Runway()
	short := func(limit float64, already bool) bool {
		if already {
			limit *= 2
		}
		return measured && runway < limit && now.Sub(d.arrivedAt) >= stillAfter
	}
	switch {
	case keys < d.cfg.PageBelow && !d.last.Known:
		return StatePage, "the pool cannot be read"
	case keys < d.cfg.PageBelow:
		return StatePage, fmt.Sprintf("the pool holds fewer than %d keys", d.cfg.PageBelow)
	case short(pageRunway, d.level == StatePage):
		return StatePage, fmt.Sprintf("no keys arrive, and the runway of the pool is %.0f s", runway)
	case keys < d.cfg.RestartBelow:
		return StateRestart, fmt.Sprintf("the pool holds fewer than %d keys", d.cfg.RestartBelow)
	case short(restartRunway, d.level.Alarm()):
		return StateRestart, fmt.Sprintf("no keys arrive, and the runway of the pool is %.0f s", runway)
	}
	return StateOK, ""
}

// fills reports whether a pool that has not been full in this epoch is still growing.
func (d *DeadMansSwitch) fills(now time.Time, keys int64) bool {
	if keys > d.peak {
		d.peak, d.grewAt = keys, now
	}
	return keys < LowWater(d.cfg.Capacity) && now.Sub(d.grewAt) < stillAfter
}

func (d *DeadMansSwitch) enter(next State, why string, now time.Time) {
	if next == d.last.State {
		return
	}
	attrs := append([]any{slog.String("state", string(next)), slog.String("previous", string(d.last.State))}, d.last.poolKeys()...)
	if next.Alarm() {
		d.cfg.Logger.Warn("pool alarm", append(attrs, slog.String("why", why))...)
	} else {
		d.cfg.Logger.Info("the state of the pool changed", attrs...)
	}
	if next == StatePage {
		d.cfg.Metrics.CountPage()
	}
	d.last.State, d.last.Since = next, now
}

// due returns the action to take now. When the pool gets low, the switch restarts the worker at
// once. It repeats the restart after growing gaps. It gives up if no key arrives after several
// restarts. due ignores Observation.Unsafe, because a new worker does not make a pool safe.
func (d *DeadMansSwitch) due(now time.Time) action {
	if !d.level.Alarm() {
		d.restartAt, d.gap, d.restarts = time.Time{}, firstRestartGap, 0
		return doNothing
	}
	if now.Before(d.restartAt) {
		return doNothing
	}
	d.restartAt, d.gap = now.Add(d.gap), min(2*d.gap, maxRestartGap)
	if d.restarts >= futileRestarts {
		return doGiveUp
	}
	d.restarts++
	return doRestart
}
