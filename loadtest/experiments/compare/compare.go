// Package compare sets every key source side by side: the same server with another KEY_SOURCE,
// under the same load, on the same machine, in one run.
//
// What is timed is timed in rounds, all key sources in turn in each; only what is not timed
// runs side by side. The links of all key sources are in one PostgreSQL that commits durably,
// in a database for each.
//
// Invariant: every cell of every table is measured in this run, is computed from cells that
// were, or is empty. A key source that cannot be measured fails a claim.
//
// Vocabulary: the supply of a key source is what its keys come from, and a call is one round
// trip to it.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	// limit is how long the comparison may take on two cores, so that the whole group takes at
	// most ten minutes.
	limit = 9 * time.Minute

	mostAhead   = 0.05 // calls per creation of key sources that take keys ahead
	perKeyOff   = 0.05 // how far those that call for each key may be from one call
	mostWithout = 0.01 // calls per creation of those without a supply
	// mostSkipped is how many numbers a crash may cost a key source that holds two batches.
	mostSkipped = 250
	// fewSkipped is how many it may cost one that calls for each key: those in progress, and what
	// a sequence of PostgreSQL writes ahead.
	fewSkipped  = 40
	mostSmaller = 0.9 // of the bytes that codes without order take
)

// The key sources that are set against each other, and the one that is the fallback too.
const (
	incr   = "redis-incr"
	pool   = "redis-pool"
	random = "random"
)

// Experiments returns the comparison. Its parts about codes and about the space are experiments
// of packages guess and space.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{experiment.Define(experiment.Definition[record]{
		Name: "compare/keysources", Title: "Every key source side by side",
		Summary: fmt.Sprintf("Creations as fast as %d connections allow, then %d per second; servers killed again and again; whatever a key source needs killed for some "+
			"seconds; and a million links of each kind of code in an index.", measure.Connections, steadyRate),
		Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Run: run, Show: show, Claims: claims(),
		// Servers that acknowledge links without storing them answer for them from memory at first.
		Controls: []experiment.Control{{Without: []string{"store"}, Refutes: measure.NoLostLink, AlsoRefutes: []string{"every key source measured"}}},
	})}
}

// record is what the experiment observes.
type record struct {
	sources.Observed
	found []*found // in the order of reports

	rounds, crashes int
	each            time.Duration
	links           int64 // of each kind of code in the index

	usual bool          // nothing was scaled, so the time of all is limited
	took  time.Duration // all of it; 0 until the end
}

// found is what is observed of one key source. A series without figures was not measured.
type found struct {
	sources.Source
	rate, p99  measure.Series // creations per second; ms
	best       measure.Series // the rate as a share of the best of the same round
	calls      measure.Series // per creation
	refused    measure.Series // % of the creations of the worst load
	skipped    measure.Series // numbers per crash
	index, log measure.Series // bytes per link
	memory     string         // of Redis
	outages    []*outage
}

func (r *record) of(name string) *found {
	i := slices.IndexFunc(r.found, func(f *found) bool { return f.Name == name })
	if i < 0 {
		return &found{}
	}
	return r.found[i]
}

func run(t *experiment.T, rec *record) {
	begun := time.Now()
	rec.rounds, rec.crashes, rec.links = t.Times(3), t.Times(20), int64(t.Times(1_000_000))
	rec.each, rec.usual = max(time.Second, cmp.Or(t.Duration, 2*time.Second).Truncate(time.Second)), t.Scale == 1 && t.Duration == 0
	for _, s := range sources.Compared() {
		rec.found = append(rec.found, &found{Source: s})
	}
	m := newMeter(t, rec.each)
	rec.speed(t, m)
	rec.crash(t, m.Stage)
	rec.outages(t, m.Stage)
	rec.fill(t, m.Stage)
	rec.Complete, rec.took = true, time.Since(begun)
}

// launch starts a server with each of the key sources that are wanted, and waits until its pool is full.
func launch(stage *sources.Stage, wanted func(*found) bool, found []*found, settings ...string) (all []*sources.Running) {
	for _, f := range found {
		if wanted(f) {
			all = append(all, stage.Launch(&f.Source, stage.Supply(&f.Source, ""), append(settings, fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys))...))
		}
	}
	stage.AwaitFull(all)
	return all
}

// supplied says how a key source depends on its supply.
type supplied string

const (
	ahead   supplied = "ahead"   // it takes many keys at a time, ahead of use
	perKey  supplied = "per key" // it calls its supply for each key
	without supplied = "without" // it has no supply
)

func (f *found) supplied() supplied {
	switch {
	case f.Tickets || f.Redis && f.Class == sources.Counter:
		return perKey
	case f.Name == random || f.Class != sources.Random && f.Class != sources.Counter:
		return without
	}
	return ahead
}

func claims() []experiment.Claim[record] {
	calls := func(f *found) measure.Series { return f.calls }
	skipped := func(f *found) measure.Series { return f.skipped }
	return slices.Concat([]experiment.Claim[record]{
		atMost(ahead, mostAhead, "calls", calls, "pools are called for many keys at a time",
			fmt.Sprintf("A key source that takes keys ahead of use calls its supply at most %.2f times per creation.", mostAhead)),
		atMost(perKey, perKeyOff, "calls from one", func(f *found) (off measure.Series) {
			if len(f.calls) > 0 {
				off = measure.Series{math.Abs(f.calls.Median() - 1)}
			}
			return off
		}, "counters are called for each key", fmt.Sprintf("The counter in Redis and the tickets call their supply once per creation, within %.2f.", perKeyOff)),
		atMost(without, mostWithout, "calls", calls, "other key sources make no calls", "Key sources without a supply make no calls."),
		atMost(ahead, mostSkipped, "numbers per crash", skipped, "a crash costs at most two batches",
			"A crash costs a key source that takes keys ahead at most what the server held: two batches of about a hundred."),
		atMost(perKey, fewSkipped, "numbers per crash", skipped, "counters lose next to nothing",
			"A crash costs a counter what was in progress, and tickets also what their sequences write ahead."),
	}, outageClaims(), []experiment.Claim[record]{
		{
			Name: "codes in order need less space", Unit: "ratio", Kind: report.Correctness, Judge: judgeIndex,
			Text: fmt.Sprintf("The index of codes in order takes at most %.1f of the bytes that codes of the same length without order take.", mostSmaller),
		},
		{Name: "in time", Text: fmt.Sprintf("The comparison takes at most %.0f minutes.", limit.Minutes()), Unit: "s", Kind: report.Speed, Judge: judgeTime},
		sources.EachMeasured(func(r *record) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *record) *loadtest.Verdict { return r.Links }))
}

// atMost is a claim that no key source that depends on its supply so exceeds a bound.
func atMost(how supplied, bound float64, unit string, of func(*found) measure.Series, name, text string) experiment.Claim[record] {
	return experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
		var worst *found
		for _, f := range r.found {
			if f.supplied() == how && len(of(f)) > 0 && (worst == nil || of(f).Median() > of(worst).Median()) {
				worst = f
			}
		}
		if worst == nil {
			return experiment.Verdict{}
		}
		return experiment.AtMost(bound, of(worst).Median(), "the most: %s with %.4g %s", worst.Name, of(worst).Median(), unit)
	}}
}

func judgeIndex(r *record) experiment.Verdict {
	ordered, unordered := r.of(incr).index, r.of(pool).index // both have six digits
	if len(ordered) == 0 || len(unordered) == 0 {
		return experiment.Verdict{}
	}
	return experiment.AtMost(mostSmaller, ordered.Median()/unordered.Median(), "%.1f and %.1f bytes per link", ordered.Median(), unordered.Median())
}

func judgeTime(r *record) experiment.Verdict {
	switch {
	case r.took == 0:
		return experiment.Verdict{}
	case !r.usual:
		return experiment.NotJudged("the run is scaled and takes %s", report.Duration(r.took))
	}
	return experiment.AtMost(limit.Seconds(), math.Round(r.took.Seconds()), "it takes %s", report.Duration(r.took))
}
