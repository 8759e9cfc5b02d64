package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

const (
	poolKeys = 200_000 // enough for some seconds at full speed

	steadyRate   = 500                    // creations per second
	steadyWarmUp = 300 * time.Millisecond // of the steady load before it is measured
	steadyRest   = time.Second            // between the loads: a status of the pool is as old at most
)

// speed times creations: as many as the connections of wrk allow, and the p99 at a rate that every
// key source can keep.
func (r *record) speed(t *experiment.T, m *meter) {
	t.Phase(0.02, "starting every key source")
	all := launch(m.Stage, func(*found) bool { return true }, r.found)
	t.Phase(0.05, "calls of idle key sources")
	idle := m.idle(t, all)
	var subjects []measure.Subject
	for i, one := range all {
		flatOut := func(ctx context.Context) (int64, float64, error) {
			return r.found[i].flatOut(ctx, r.each, t, m, one, idle[i])
		}
		steady := func(ctx context.Context) (int64, float64, error) { return r.found[i].steady(ctx, r.each, t, one) }
		subjects = append(subjects, r.subject(one, "creations", measure.PerSecond, flatOut), r.subject(one, "p99", "ms", steady))
		subjects[len(subjects)-1].Follows = true
	}
	lines := 0.0
	figures, err := measure.Alternate(t.Context(), r.rounds, func(line string) {
		t.Phase(0.07+0.5*lines/float64(r.rounds*len(subjects)), "%s", line)
		lines++
	}, subjects...)
	t.Must(err)
	best := make(measure.Series, r.rounds)
	for i, one := range all {
		f := r.found[i]
		if f.rate, f.p99 = figures[2*i], figures[2*i+1]; f.rate == nil {
			f.calls = nil
		}
		for round, rate := range f.rate {
			best[round] = max(best[round], rate)
		}
		if one.Redis {
			if f.memory, err = memoryOf(t, one.At.Redis); err != nil {
				r.Fail(one.Name, fmt.Errorf("memory of Redis: %w", err))
			}
		}
	}
	for _, f := range r.found {
		f.best = f.rate.Over(best)
	}
	sources.Kill(all)
}

// subject is a load on a key source in a round, which returns how many creations it made and its
// figure. It begins when the pool of the server, if it has one, is so full that no refill runs. It
// fails when the table of links gets fewer rows than creations are acknowledged.
func (r *record) subject(one *sources.Running, what, unit string, load func(context.Context) (int64, float64, error)) measure.Subject {
	try := func(ctx context.Context) (figure float64, err error) {
		err = lab.Until(ctx, 20*time.Millisecond, 20*time.Second, func(context.Context) (bool, error) {
			status, err := one.Server.TryStatus()
			if keys := lab.Known(status.PoolKeys, poolKeys); err == nil && keys < poolKeys*9/10 {
				return false, fmt.Errorf("its pool has %d keys", keys)
			}
			return true, err
		})
		if err != nil {
			return 0, err
		}
		before, err := lab.CountLinks(ctx, one.At.Links)
		if err != nil {
			return 0, err
		}
		made, figure, err := load(ctx)
		if err != nil {
			return 0, err
		}
		after, err := lab.CountLinks(ctx, one.At.Links)
		if err == nil && (made == 0 || after-before < made) {
			err = fmt.Errorf("%d creations are acknowledged and %d are stored", made, after-before)
		}
		return figure, err
	}
	return measure.Subject{Name: one.Name + ", " + what, Unit: unit, Optional: true, Measure: func(ctx context.Context) (float64, error) {
		figure, err := try(ctx)
		if err != nil && ctx.Err() == nil {
			r.Fail(one.Name, fmt.Errorf("%s: %w", what, err))
		}
		return figure, err
	}}
}

// flatOut is how many creations per second wrk gets, each of another URL. It records the calls
// of the supply, less those of an idle server, and lets the server recover.
func (f *found) flatOut(ctx context.Context, d time.Duration, t *experiment.T, m *meter, one *sources.Running, idle float64) (made int64, perSecond float64, err error) {
	before, err := m.calls(ctx, one)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	tally, err := measure.Wrk{
		URL: one.Server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: d, Refusals: true,
	}.Run(ctx)
	if err != nil {
		return 0, 0, err
	}
	took := time.Since(begun)
	after, err := m.calls(ctx, one)
	lab.Pause(t, steadyRest)
	made = tally.Requests - tally.Status
	f.calls = append(f.calls, max(0, after-before-idle*took.Seconds())/float64(made)) // below 0 is noise
	f.refuses(tally.Status, tally.Requests)
	return made, float64(made) / float64(tally.Requests) * tally.PerSecond(), err
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due. Every
// link is read back.
func (f *found) steady(ctx context.Context, d time.Duration, t *experiment.T, one *sources.Running) (made int64, ms float64, err error) {
	load, recorder := lab.Traffic(t, one.Server), loadtest.NewRecorder()
	err = errors.Join(load.Run(ctx, steadyRate, steadyWarmUp, loadtest.NewRecorder()), load.Run(ctx, steadyRate, d, recorder))
	if err != nil {
		return 0, 0, err
	}
	v, err := lab.TryCheck(t, one.Server, nil, load)
	if err == nil && v.Broken()+v.Unknown+v.Unsent > 0 {
		err = fmt.Errorf("links are missing: %+v", v)
	}
	measured := recorder.Figures()
	f.refuses(measured.Refused, measured.Sent)
	return v.Acknowledged, float64(measured.Latency.P99.Microseconds()) / 1000, err
}

// refuses records how many creations of a load were refused. The worst load counts.
func (f *found) refuses(refused, sent int64) {
	f.refused = measure.Series{max(f.refused.Median(), 100*float64(refused)/float64(max(1, sent)))}
}
