package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/loadtest/testbed"
)

// How long is waited for what ought to happen, at the most.
const (
	fillPatience   = 30 * time.Second
	signalPatience = 10 * time.Second
	emptyPatience  = 1.5 // of the time that was foretold

	drainSteady = 2 * time.Second // of load before the worker is stopped
)

// experiment is the experiment itself. What does not happen in time ends it, and is for the claims
// to tell.
func (d *drainage) experiment(ctx context.Context) error {
	if err := d.awaitFull(ctx); err != nil {
		return err
	}
	d.pulse.watch(d.traffic.recorder, d.server.Admin)
	before, err := readProcessors(ctx)
	if err != nil {
		return err
	}
	flow := d.traffic.Start(ctx, d.rate)
	if err = d.drainAndRefill(ctx); errors.Is(err, errLate) {
		err = nil
	}
	after, timesErr := readProcessors(context.WithoutCancel(ctx))
	d.record.others = after.others(before)
	return errors.Join(err, timesErr, flow.End())
}

// awaitFull waits until the worker is done and the server knows it.
func (d *drainage) awaitFull(ctx context.Context) error {
	_, err := d.levels.until(ctx, fillPatience+time.Duration(d.capacity)*time.Microsecond, "the pool is full", d.holdsAll)
	if err != nil {
		return err
	}
	return d.await(ctx, "the server sees it full", func() bool {
		status, err := testbed.AskStatus(ctx, d.server.Admin)
		return err == nil && status.State == "ok"
	})
}

// holdsAll says that a pool has all that a worker brings into it.
func (d *drainage) holdsAll(l level) bool { return l.keys >= d.capacity-d.capacity/10 }

// await keeps an eye on the pool until something else holds.
func (d *drainage) await(ctx context.Context, what string, holds func() bool) error {
	_, err := d.levels.until(ctx, signalPatience, what, func(level) bool { return holds() })
	return err
}

func (d *drainage) drainAndRefill(ctx context.Context) error {
	r, l := &d.record, d.levels
	full, err := d.stopWorker(ctx)
	if err != nil {
		return err
	}
	d.pulse.enter("the first tenth")
	r.started = full.at
	lasts := time.Duration(float64(full.keys) / d.rate * float64(time.Second))
	_, err = l.until(ctx, signalPatience+lasts, "the first tenth is gone", func(now level) bool { return now.keys <= full.keys-full.keys/10 })
	if err != nil {
		return err
	}
	var known bool
	if r.foretold, known = foretell(since(l.seen, r.started)); !known {
		r.unsteady = true
		return fmt.Errorf("%w: a decline to foretell anything from", errLate)
	}
	d.pulse.enter(fmt.Sprintf("empty at %.1f s, it is foretold", r.foretold.empty().Sub(r.started).Seconds()))
	empty, err := l.until(ctx, signalPatience+time.Duration(emptyPatience*float64(time.Until(r.foretold.empty()))),
		"the pool is empty", func(now level) bool { return now.keys == 0 })
	if err != nil {
		return err
	}
	r.empty = empty.at
	d.pulse.enter("without a pool")
	if _, err = l.until(ctx, 2*d.fallback, "", func(now level) bool { return now.at.Sub(r.empty) >= d.fallback }); err != nil {
		return err
	}
	return d.refill(ctx)
}

// stopWorker stops the worker once the load is steady, whose first requests come in a crowd,
// and returns what the pool then holds.
func (d *drainage) stopWorker(ctx context.Context) (level, error) {
	d.pulse.enter("the worker keeps the pool full")
	begun := time.Now()
	if _, err := d.levels.until(ctx, signalPatience, "the load is steady", func(now level) bool { return now.at.Sub(begun) >= drainSteady }); err != nil {
		return level{}, err
	}
	if err := d.worker.Stop(); err != nil {
		return level{}, err
	}
	return d.levels.until(ctx, signalPatience, "the pool can be seen", func(level) bool { return true })
}

// refill brings the worker back.
func (d *drainage) refill(ctx context.Context) error {
	d.pulse.enter("the worker is back")
	d.record.back = time.Now()
	if err := d.revive(ctx); err != nil {
		return err
	}
	full, err := d.levels.until(ctx, refillBound(d.capacity)+time.Second, "the pool is full again", d.holdsAll)
	if err != nil {
		return err
	}
	d.record.full = full.at
	return d.await(ctx, "the all-clear", func() bool {
		_, heard := first(d.ear.signals(), d.record.back, "ok")
		return heard
	})
}
