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
			e.subject(r, "p99", "ms", func(ctx context.Context) (float64, error) { return e.steady(ctx, r) }))
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
		URL: r.server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: e.Each, Refusals: true,
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
	if err != nil {
		return 0, err
	}
	made := tally.Requests - tally.Status
	if made == 0 || more-rows < made {
		return 0, fmt.Errorf("%d creations were acknowledged and %d are stored", made, more-rows)
	}
	f := e.found[r.name]
	share := float64(made) / float64(tally.Requests)
	f.calls, f.refusedFlat = append(f.calls, perCreation(after-before, idle, took, made)), max(f.refusedFlat, 1-share)
	return share * tally.PerSecond(), nil
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due;
// every link is read back. What was refused is kept.
func (e *experiment) steady(ctx context.Context, r *running) (ms float64, err error) {
	v, err := loadtest.Steady(ctx, r.server.Public, steadyWarmUp, loadtest.Schedule{Rate: steadyRate, Duration: e.Each})
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
