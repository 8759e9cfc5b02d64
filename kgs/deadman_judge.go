package kgs

import (
	"fmt"
	"log/slog"
	"time"
)

const (
	stillAfter  = 10 * time.Second // a pool that nothing reaches, or that is unseen, for so long is in trouble
	takenWindow = 15 * time.Second // over which the rate of taking is measured: servers take a batch at a time

	// What a pool must last at the present rate when nothing reaches it, in seconds.
	// An alarm ends at twice as much, so that it does not come and go with the rate.
	restartRunway = 60
	pageRunway    = 30
)

// observe takes one look into account and tells what is to be done.
func (d *DeadMan) observe(now time.Time, pool PoolStatus, known bool) remedy {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last.Known = known
	if known {
		d.see(now, pool)
	}
	keys := pool.Keys
	if !known {
		keys = 0 // what a pool holds that came back from the past is of no use to anybody
	}
	if known || now.Sub(d.seenAt) >= stillAfter {
		state, why := d.judge(now, keys)
		d.level = state
		if d.last.Pool.Evicts() {
			state, why = StatePage, "Redis may evict keys: its maxmemory-policy is "+d.last.Pool.Policy+" and must be noeviction"
		}
		d.enter(state, why, now)
	}
	return d.due(now)
}

// see remembers what the pool was like, and measures what arrives and what is taken.
func (d *DeadMan) see(now time.Time, pool PoolStatus) {
	if pool.Epoch != d.last.Pool.Epoch { // another pool, which has never been full
		// One epoch after the other, none of which gets anywhere, is not progress.
		if d.level != StateFilling {
			d.level, d.peak, d.grewAt, d.arrivedAt = StateFilling, 0, now, now
		}
		d.supply, d.taken = 0, NewMeter(takenWindow)
	}
	supply := pool.Pushed
	if supply > d.supply {
		d.vain = 0
	}
	if supply > d.supply || pool.Keys >= LowWater(d.cfg.Capacity) {
		d.arrivedAt = now
	}
	d.supply = supply
	d.taken.Sample(pool.Popped, now)
	d.seenAt, d.last.Pool, d.last.Rate = now, pool, d.taken.Rate()
}

// judge is the state of a pool that holds keys, and why; one that cannot be seen holds none.
func (d *DeadMan) judge(now time.Time, keys int64) (State, string) {
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
		return StatePage, "it cannot be seen"
	case keys < d.cfg.PageBelow:
		return StatePage, fmt.Sprintf("it holds fewer than %d keys", d.cfg.PageBelow)
	case short(pageRunway, d.level == StatePage):
		return StatePage, fmt.Sprintf("nothing reaches it, and it lasts %.0f s", runway)
	case keys < d.cfg.RestartBelow:
		return StateRestart, fmt.Sprintf("it holds fewer than %d keys", d.cfg.RestartBelow)
	case short(restartRunway, d.level.Alarm()):
		return StateRestart, fmt.Sprintf("nothing reaches it, and it lasts %.0f s", runway)
	}
	return StateOK, ""
}

// fills reports that a pool which was not full yet in this epoch still gets there.
func (d *DeadMan) fills(now time.Time, keys int64) bool {
	if keys > d.peak {
		d.peak, d.grewAt = keys, now
	}
	return keys < LowWater(d.cfg.Capacity) && now.Sub(d.grewAt) < stillAfter
}

func (d *DeadMan) enter(next State, why string, now time.Time) {
	if next == d.last.State {
		return
	}
	attrs := []any{
		slog.String("state", string(next)), slog.String("previous", string(d.last.State)),
		slog.Int64("pool_keys", d.last.Pool.Keys),
	}
	if next.Alarm() {
		d.cfg.Logger.Warn("the pool is in trouble", append(attrs, slog.String("why", why))...)
	} else {
		d.cfg.Logger.Info("the state of the pool changed", attrs...)
	}
	if next == StatePage {
		d.cfg.Metrics.pages.Inc()
	}
	d.last.State, d.last.Since = next, now
}

// due tells what to do now: to restart the worker at once when the pool gets low, then
// again and again with growing gaps, and to give up when that was in vain. That Redis may
// evict keys is no fault of the worker, and no reason for either.
func (d *DeadMan) due(now time.Time) remedy {
	if !d.level.Alarm() {
		d.restartAt, d.gap, d.vain = time.Time{}, firstRestartGap, 0
		return doNothing
	}
	if now.Before(d.restartAt) {
		return doNothing
	}
	d.restartAt, d.gap = now.Add(d.gap), min(2*d.gap, maxRestartGap)
	if d.vain >= vainRestarts {
		return doGiveUp
	}
	d.vain++
	return doRestart
}
