package schemes

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"keypool/kgs/refill"
	"keypool/loadtest"
	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"
)

const (
	// steadyRate is in creations a second.
	steadyRate = 500
	// steadyWarmUp is how long the steady load runs before it is measured.
	steadyWarmUp = 300 * time.Millisecond

	mostPooled = 0.05 // calls a creation of those that take keys many at a time
	askedOff   = 0.05 // how far those that ask for each key may be from one call
	mostAlone  = 0.01 // of those that ask nobody

	levelLook     = 20 * time.Millisecond
	levelPatience = 20 * time.Second // for a pool to be filled up again
)

// The claims of the part.
const (
	claimPooled = "pools are called for many keys at a time"
	claimAsked  = "counters are called for each key"
	claimAlone  = "other schemes call nobody"
)

// speed times creations: as many as go on the connections of wrk, and how long they take at a rate
// that all can keep.
func (e *experiment) speed(ctx context.Context) error {
	e.enterSpeed()
	runs := e.everybody(ctx)
	defer e.dismiss(runs)
	idle, err := e.idling(ctx, runs)
	if err != nil {
		return err
	}
	subjects := make([]rounds.Subject, 0, 2*len(runs))
	for _, r := range runs {
		steady := e.subject(r, "p99", "ms", func(ctx context.Context) (float64, error) { return e.steady(ctx, r) })
		steady.Follows = true
		subjects = append(subjects,
			e.subject(r, "creations", rounds.PerSecond, func(ctx context.Context) (float64, error) { return e.flatOut(ctx, r, idle[r.name]) }), steady)
	}
	// Each error is on record already.
	figures, _ := rounds.Alternate(ctx, e.Rounds, func(line string) { e.enter("%s", line) }, subjects...)
	if ctx.Err() != nil {
		return nil
	}
	e.keepFigures(runs, figures)
	for _, r := range runs {
		if r.redis != "" {
			e.keepMemory(ctx, r)
		}
	}
	e.judgeSpeed()
	e.drawSpeed()
	return nil
}

// subject is what is measured of a scheme in a round; a failure is on record.
func (e *experiment) subject(r *running, what, unit string, measure func(context.Context) (float64, error)) rounds.Subject {
	return rounds.Subject{Name: r.name + ", " + what, Unit: unit, Measure: func(ctx context.Context) (float64, error) {
		figure, err := measure(ctx)
		if err != nil && ctx.Err() == nil {
			e.fail(r.name, fmt.Errorf("%s: %w", what, err))
		}
		return figure, err
	}}
}

// replenished waits until the pool of a server, if it tells of one, is so full that nobody
// refills it, and fails when that takes too long.
func replenished(ctx context.Context, r *running) error {
	keys := int64(0)
	err := testbed.Until(ctx, levelLook, levelPatience, func(ctx context.Context) (bool, error) {
		status, err := testbed.AskStatus(ctx, r.server.Admin)
		if err != nil || status.PoolKeys == nil {
			return true, err
		}
		keys = *status.PoolKeys
		return keys >= refill.LowWater(poolKeys), nil
	})
	if err != nil {
		return fmt.Errorf("wait for its pool, of %d keys so far: %w", keys, err)
	}
	return nil
}

// stored fails when there are fewer new rows in the table of links than load says that
// creations were acknowledged.
func stored(ctx context.Context, r *running, load func() (made int64, err error)) error {
	before, err := testbed.CountLinks(ctx, r.links)
	if err != nil {
		return err
	}
	made, err := load()
	if err != nil {
		return err
	}
	after, err := testbed.CountLinks(ctx, r.links)
	if err == nil && (made == 0 || after-before < made) {
		err = fmt.Errorf("%d creations were acknowledged and %d are stored", made, after-before)
	}
	return err
}

// flatOut is how many creations a second wrk gets, each of a URL of its own. What the supply
// was called meanwhile is kept.
func (e *experiment) flatOut(ctx context.Context, r *running, idle float64) (perSecond float64, err error) {
	if err := replenished(ctx, r); err != nil {
		return 0, err
	}
	before, err := e.stage.calls(ctx, r)
	if err != nil {
		return 0, err
	}
	var tally wrk.Tally
	begun := time.Now()
	err = stored(ctx, r, func() (_ int64, err error) {
		tally, err = wrk.Load{
			URL: r.server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: e.Each, Refusals: true,
		}.Run(ctx)
		return tally.Requests - tally.Status, err
	})
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, err := e.stage.calls(ctx, r)
	if err != nil {
		return 0, err
	}
	made := tally.Requests - tally.Status
	f := e.found[r.name]
	share := float64(made) / float64(tally.Requests)
	f.calls, f.refusedFlat = append(f.calls, perCreation(after-before, idle, took, made)), max(f.refusedFlat, 1-share)
	return share * tally.PerSecond(), nil
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due,
// once the server has recovered from what was before; every link is read back. What was
// refused is kept.
func (e *experiment) steady(ctx context.Context, r *running) (ms float64, err error) {
	pause(ctx, e.rest)
	if err := replenished(ctx, r); err != nil {
		return 0, err
	}
	var v loadtest.Verdict
	err = stored(ctx, r, func() (_ int64, err error) {
		v, err = loadtest.Steady(ctx, r.server.Public, steadyWarmUp, loadtest.Schedule{Rate: steadyRate, Duration: e.Each})
		return v.Checked, err // those of the warm-up too
	})
	if err == nil && (v.Broken() > 0 || v.Unknown+v.Unsent > 0 || v.Acknowledged == 0) {
		err = fmt.Errorf("the load got what it should not: %+v", v)
	}
	if err != nil {
		return 0, err
	}
	f := e.found[r.name]
	f.refused = max(f.refused, float64(v.Refused)/float64(v.Sent))
	return float64(v.Latency.P99.Microseconds()) / 1000, nil
}

// keepFigures takes what the subjects came to, two for each scheme.
func (e *experiment) keepFigures(runs []*running, figures []rounds.Series) {
	best := make(rounds.Series, e.Rounds)
	for i := range runs {
		for round, v := range figures[2*i] {
			best[round] = max(best[round], v)
		}
	}
	for i, r := range runs {
		f := e.found[r.name]
		f.rate, f.p99, f.best = figures[2*i], figures[2*i+1], figures[2*i].Over(best)
		if f.rate == nil {
			f.calls = nil
		}
	}
}
