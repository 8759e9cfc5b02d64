package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/dustin/go-humanize"
)

const (
	poolKeys = 200_000 // enough for some seconds at full speed

	steadyRate   = 500                    // creations per second
	steadyWarmUp = 300 * time.Millisecond // of the steady load before it is measured
	steadyRest   = time.Second            // before the steady load: a status of the pool is as old at most
	idleFor      = 2 * time.Second        // how long the calls of idle servers are counted

	mostAhead   = 0.05 // calls per creation of key sources that take keys ahead
	perKeyOff   = 0.05 // how far those that call for each key may be from one call
	mostWithout = 0.01 // calls per creation of those without a supply
)

func speedClaims() []experiment.Claim[record] {
	calls := func(f *found) (float64, bool) { return f.calls.Median(), len(f.calls) > 0 }
	return []experiment.Claim[record]{
		atMost(ahead, mostAhead, "pools are called for many keys at a time",
			fmt.Sprintf("A key source that takes keys ahead of use calls its supply at most %.2f times per creation.", mostAhead), "calls", calls),
		{
			Name: "counters are called for each key", Text: "The counter in Redis and the tickets call their supply once per creation.",
			Unit: "calls", Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
				off, name := r.worst(perKey, func(f *found) (float64, bool) { return math.Abs(f.calls.Median() - 1), len(f.calls) > 0 })
				if name == "" {
					return experiment.Verdict{}
				}
				n := r.found[name].calls.Median()
				return experiment.Holds(off <= perKeyOff, "the farthest from one: %s with %.3f", name, n).Figures(1, n)
			},
		},
		atMost(without, mostWithout, "other key sources make no calls", "Key sources without a supply make no calls.", "calls", calls),
	}
}

// speed times creations: as many as the connections of wrk allow, and the p99 at a rate that every
// key source can keep.
func (r *record) speed(t *experiment.T, m *meter) {
	t.Phase(0.02, "starting every key source")
	var all []*sources.Running
	for _, s := range sources.Compared() {
		all = append(all, m.Launch(&s, m.Supply(&s, ""), fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys)))
	}
	m.AwaitFull(all)
	t.Phase(0.05, "calls of idle key sources")
	idle := m.idle(t, all)
	var subjects []measure.Subject
	for _, one := range all {
		subjects = append(subjects,
			r.subject(one.Name, "creations", measure.PerSecond, func(ctx context.Context) (float64, error) { return r.flatOut(ctx, m, one, idle[one.Name]) }),
			r.subject(one.Name, "p99", "ms", func(ctx context.Context) (float64, error) { return r.steady(ctx, t, one) }))
		subjects[len(subjects)-1].Follows = true
	}
	lines := 0.0
	figures, err := measure.Alternate(t.Context(), r.rounds, func(line string) {
		t.Phase(0.07+0.5*lines/float64(r.rounds*len(subjects)), "%s", line)
		lines++
	}, subjects...)
	t.Must(err)
	best := make(measure.Series, r.rounds)
	for i := range all {
		for round, v := range figures[2*i] {
			best[round] = max(best[round], v)
		}
	}
	for i, one := range all {
		f := r.found[one.Name]
		if f.rate, f.p99 = figures[2*i], figures[2*i+1]; f.rate == nil {
			f.calls = nil
		}
		f.best = f.rate.Over(best)
		if one.Redis {
			if f.memory, err = memoryOf(t.Context(), lab.RedisClient(t, one.At.Redis)); err != nil {
				r.fail(one.Name, fmt.Errorf("memory of Redis: %w", err))
			}
		}
	}
	sources.Kill(all)
}

// subject is what is measured of a key source in a round. It records a failure.
func (r *record) subject(name, what, unit string, do func(context.Context) (float64, error)) measure.Subject {
	return measure.Subject{Name: name + ", " + what, Unit: unit, Optional: true, Measure: func(ctx context.Context) (float64, error) {
		figure, err := do(ctx)
		if err != nil && ctx.Err() == nil {
			r.fail(name, fmt.Errorf("%s: %w", what, err))
		}
		return figure, err
	}}
}

// flatOut is how many creations per second wrk gets, each of another URL. It records the calls
// of the supply, less those of an idle server.
func (r *record) flatOut(ctx context.Context, m *meter, one *sources.Running, idle float64) (perSecond float64, err error) {
	if err := replenished(ctx, one); err != nil {
		return 0, err
	}
	before, err := m.calls(ctx, one)
	if err != nil {
		return 0, err
	}
	var tally measure.Tally
	begun := time.Now()
	made, err := stored(ctx, one, func() (int64, error) {
		tally, err = measure.Wrk{
			URL: one.Server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: r.each, Refusals: true,
		}.Run(ctx)
		return tally.Requests - tally.Status, err
	})
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, err := m.calls(ctx, one)
	if err != nil {
		return 0, err
	}
	f := r.found[one.Name]
	share := float64(made) / float64(tally.Requests)
	f.calls = append(f.calls, max(0, after-before-idle*took.Seconds())/float64(made)) // below 0 is noise
	f.refusedFlat = max(f.refusedFlat, 1-share)
	return share * tally.PerSecond(), nil
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due, once the
// server has recovered from the load before. Every link is read back.
func (r *record) steady(ctx context.Context, t *experiment.T, one *sources.Running) (ms float64, err error) {
	lab.Pause(t, steadyRest)
	if err := replenished(ctx, one); err != nil {
		return 0, err
	}
	load, recorder := lab.Traffic(t, one.Server), loadtest.NewRecorder()
	_, err = stored(ctx, one, func() (int64, error) {
		err := errors.Join(load.Run(ctx, steadyRate, steadyWarmUp, loadtest.NewRecorder()), load.Run(ctx, steadyRate, r.each, recorder))
		return loadtest.Count(load.Entries()).Acknowledged, err
	})
	if err != nil {
		return 0, err
	}
	v, err := lab.TryCheck(t, one.Server, nil, load)
	if err == nil && v.Broken()+v.Unknown+v.Unsent > 0 {
		err = fmt.Errorf("links are missing: %+v", v)
	}
	measured := recorder.Figures()
	f := r.found[one.Name]
	f.refused = max(f.refused, float64(measured.Refused)/float64(max(1, measured.Sent)))
	return float64(measured.Latency.P99.Microseconds()) / 1000, err
}

// replenished waits until the pool of a server, if it has one, is so full that no refill runs.
func replenished(ctx context.Context, one *sources.Running) error {
	keys := int64(0)
	err := lab.Until(ctx, 20*time.Millisecond, 20*time.Second, func(context.Context) (bool, error) {
		status, err := one.Server.TryStatus()
		keys = lab.Known(status.PoolKeys, poolKeys)
		return err != nil || keys >= poolKeys*9/10, err
	})
	if err != nil {
		return fmt.Errorf("wait for its pool, of %d keys so far: %w", keys, err)
	}
	return nil
}

// stored fails when the table of links gets fewer rows than creations of the load are acknowledged.
func stored(ctx context.Context, one *sources.Running, load func() (made int64, err error)) (made int64, err error) {
	before, err := lab.CountLinks(ctx, one.At.Links)
	if err != nil {
		return 0, err
	}
	if made, err = load(); err != nil {
		return 0, err
	}
	after, err := lab.CountLinks(ctx, one.At.Links)
	if err == nil && (made == 0 || after-before < made) {
		err = fmt.Errorf("%d creations are acknowledged and %d are stored", made, after-before)
	}
	return made, err
}

func (r *record) showSpeed(e *report.Experiment) {
	e.Notes = append(e.Notes,
		fmt.Sprintf("Creations: by wrk on %d connections, each of which waits for its answer, and then %d per second, due whatever became of those before; %.0f s each, %d rounds, all "+
			"key sources in turn, starting with another one in each round. A ratio to the best is that of one round. All servers run all the time; those whose turn it is not do nothing.",
			measure.Connections, steadyRate, r.each.Seconds(), r.rounds),
		"Every creation is of another URL, and the database must have a row for each that is acknowledged. Refusals do not count as creations; the table shows those of the worst round. At "+
			"the steady rate every link is read back too.",
		fmt.Sprintf("Before each load the pool of a server, if it has one, has time to be nine tenths full again, and before the steady one every server rests for %s.", report.Duration(steadyRest)),
		"Links are on disk when they are acknowledged. The counter of redis-incr is never on disk: a Redis that dies forgets it. Both ticket databases share the disk and "+
			"the processors of the links; on two further machines a ticket would cost the way there, and the database of the links less.",
		"Calls: PostgreSQL's own count of statements that are not on links (BEGIN and COMMIT among them), how often Redis read from a socket, and the key service's count of "+
			"requests, less what the same server calls while idle. A creation does not wait for calls that take keys ahead.",
		"The load runs on the same processors as the servers, so all rates are lower than those of a server alone.")
	table := report.Table{Title: "Creations", Columns: []string{
		"key source", fmt.Sprintf("on %d connections", measure.Connections), "of the best", "refused of these",
		fmt.Sprintf("p99 at %d/s", steadyRate), fmt.Sprintf("refused at %d/s", steadyRate), "calls per creation",
	}}
	r.eachFound(func(s *sources.Source, f *found) {
		cells := []string{s.Name, unknown, unknown, unknown, unknown, unknown, unknown}
		if len(f.rate) > 0 && len(f.p99) > 0 {
			cells = []string{
				s.Name, spread(f.rate, measure.PerSecond), spread(f.best, measure.Times), percent(f.refusedFlat), spread(f.p99, "ms"), percent(f.refused), f.callsCell(),
			}
		}
		table.Rows = append(table.Rows, cells)
	})
	e.Tables = append(e.Tables, table)
	median := func(s measure.Series) []float64 {
		if len(s) == 0 {
			return nil
		}
		return []float64{s.Median()}
	}
	e.Charts = append(e.Charts,
		chart(fmt.Sprintf("Creations on %d connections", measure.Connections), "creations", "/s",
			r.collect("each round", func(f *found) []float64 { return f.rate }), r.collect("median", func(f *found) []float64 { return median(f.rate) })),
		chart(fmt.Sprintf("99 of 100 creations at %d per second take at most this long", steadyRate), "p99", "ms",
			r.collect("each round", func(f *found) []float64 { return f.p99 }), r.collect("median", func(f *found) []float64 { return median(f.p99) })))
}

func (f *found) callsCell() string {
	switch calls := f.calls.Median(); {
	case len(f.calls) == 0:
		return unknown
	case calls >= 0.1:
		return fmt.Sprintf("%.2f", calls)
	default:
		return fmt.Sprintf("%.4f", calls)
	}
}

func spread(s measure.Series, unit string) string {
	if len(s) == 0 {
		return unknown
	}
	return s.Spread(unit)
}

func percent(share float64) string { return humanize.FtoaWithDigits(100*share, 1) + " %" }
