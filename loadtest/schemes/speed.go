package schemes

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

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
	leastAsked = 0.95 // of those that ask for each
	mostAlone  = 0.01 // of those that ask nobody
)

// The claims of the part.
const (
	claimPooled = "pools are called for many keys at a time"
	claimAsked  = "counters are called for each key"
	claimAlone  = "other schemes call nobody"
)

// speed times creations: as many as go on 64 connections, and how long they take at a rate
// that all can keep.
func (e *experiment) speed(ctx context.Context) error {
	e.enterSpeed()
	runs := e.everybody(ctx)
	defer func() { e.dismiss(runs) }()
	idle, err := e.idling(ctx, runs)
	if err != nil {
		return err
	}
	subjects := make([]rounds.Subject, 0, 2*len(runs))
	for _, r := range runs {
		subjects = append(subjects,
			e.subject(r, "creations", rounds.PerSecond, func(ctx context.Context) (float64, error) { return e.flatOut(ctx, r, idle[r.name]) }),
			e.subject(r, "p99", "ms", func(ctx context.Context) (float64, error) { return steady(ctx, r, e.Each) }))
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

// flatOut is how many creations a second wrk gets, each of a URL of its own, for which there
// must be a row each. What the supply was called meanwhile is kept.
func (e *experiment) flatOut(ctx context.Context, r *running, idle float64) (perSecond float64, err error) {
	rows, err := testbed.CountLinks(ctx, r.links)
	if err != nil {
		return 0, err
	}
	before, err := e.stage.calls(ctx, r)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	tally, err := wrk.Load{
		URL: r.server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: e.Each,
	}.Run(ctx)
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, err := e.stage.calls(ctx, r)
	if err != nil {
		return 0, err
	}
	more, err := testbed.CountLinks(ctx, r.links)
	if err == nil && more-rows < tally.Requests {
		err = fmt.Errorf("%d creations were acknowledged and only %d are stored", tally.Requests, more-rows)
	}
	f := e.found[r.name]
	f.calls = append(f.calls, perCreation(after-before, idle, took, tally.Requests))
	return tally.PerSecond(), err
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due;
// every link is read back.
func steady(ctx context.Context, r *running, lasts time.Duration) (ms float64, err error) {
	figures, _, err := loadtest.Steady(ctx, r.server.Public, steadyWarmUp, loadtest.Schedule{Rate: steadyRate, Duration: lasts})
	return float64(figures.Latency.P99.Microseconds()) / 1000, err
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
