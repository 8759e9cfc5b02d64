// Package compare compares all key sources in one run, on one machine and under the same load.
// All key sources run in the same server program, and only the settings differ.
//
// Rates and latencies are measured in rounds. Each round measures the key sources one after the other.
// In contrast, the crashes and outages affect the servers of many key sources at the same time. All links are in a
// PostgreSQL that commits durably. Each key source has its own database there.
//
// Invariant: every figure in a table is measured in this run or computed from such figures. A cell
// without a figure shows a dash. A claim fails if a key source cannot be measured.
//
// The rivals are two simple ways to hand out prepared keys that many texts describe: a table of keys under one lock,
// and a set in Redis. The experiment builds the rivals into the server and loads them in the same rounds. It does not
// measure them in crashes and outages.
//
// Vocabulary: the supply of a key source is the component that its keys come from. A call is one
// round trip to the supply. A key source takes keys ahead if one call gets many keys for later use.
// A number or key is skipped if a server took it and no link has it.
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
	// limit is the time that the comparison may take on two cores. With this limit, `make compare`
	// takes at most ten minutes.
	limit = 9 * time.Minute

	mostAhead   = 0.05 // greatest number of calls per creation for a key source that takes keys ahead
	perKeyOff   = 0.05 // allowed difference from one call per creation for a key source that makes a call for each key
	mostWithout = 0.01 // greatest number of calls per creation for a key source without a supply
	// mostSkipped is how many numbers a crash may skip on average if the server holds two batches.
	mostSkipped = 250
	// fewSkipped is how many numbers a crash may skip on average if the key source makes a call for each
	// key. A crash skips the numbers of the creations in progress.
	fewSkipped = 40
)

// The two key sources of the table "INCR against KGS", and the key source that is also the fallback.
const (
	incr   = "redis-incr"
	pool   = "redis-pool"
	random = "random"
)

// Experiments returns the experiments compare/keysources and compare/order. The packages guess and space contain the
// experiments compare/guess and compare/space.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{experiment.Define(experiment.Definition[record]{
		Name: "compare/keysources", Title: "Speed, crashes and outages of every key source",
		Summary: fmt.Sprintf("Clients create links with each key source, first as fast as possible on %d connections and then at %d per second. "+
			"After that, servers are killed (ten times at scale 1). Then the components that a key source needs are killed for some seconds.",
			measure.Connections, steadyRate),
		Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Run: run, Show: show, Claims: claims(),
		// Without the protection store, acknowledged links have no rows, so every measurement of a rate or a p99 fails too.
		Controls: []experiment.Control{{Without: []string{"store"}, Refutes: measure.NoLostLink, AlsoRefutes: []string{"every key source measured"}}},
	}), order()}
}

// record is what the experiment observes.
type record struct {
	sources.Observed
	found []*found // one for each key source, in the order of reports

	rounds, crashes int
	each            time.Duration // duration of one load

	usual bool          // the run has its usual size, so the time limit of the comparison applies
	took  time.Duration // duration of the run; 0 until it ends
}

// found holds the observations of one key source. An empty series means that the value was not
// measured.
type found struct {
	sources.Source
	broken    bool           // a load of the speed measurement failed
	rate, p99 measure.Series // creations per second, and the p99 of a creation in ms
	best      measure.Series // the rate as a share of the best rate of the same round
	calls     measure.Series // calls per creation
	refused   measure.Series // refused creations in %, in the load with the highest share of refusals
	skipped   measure.Series // skipped numbers per crash
	lines     int            // lines of code that the key source needs; 0 if they were not counted
	memory    string         // description of the memory that Redis uses
	outages   []*outage
}

func (r *record) of(name string) *found {
	i := slices.IndexFunc(r.found, func(f *found) bool { return f.Name == name })
	if i < 0 {
		return &found{}
	}
	return r.found[i]
}

func run(t *experiment.T, rec *record) {
	t.Phase(0, "building the programs with the rivals")
	others := buildRivals(t)
	begun := time.Now()
	rec.rounds, rec.crashes = t.Times(3), t.Times(10)
	rec.each, rec.usual = max(time.Second, cmp.Or(t.Duration, 2*time.Second).Truncate(time.Second)), t.Scale == 1 && t.Duration == 0
	for _, s := range append(sources.Compared(), others...) {
		rec.found = append(rec.found, &found{Source: s})
	}
	t.Must(rec.countLines(t.Context()))
	m := newMeter(t, rec.each)
	rec.speed(t, m)
	rec.crash(t, m.Stage)
	if !slices.ContainsFunc(rec.found, func(f *found) bool { return !f.broken }) {
		t.Fatalf("no key source stores its links")
	}
	rec.outages(t, m.Stage)
	rec.Complete, rec.took = true, time.Since(begun)
}

// launch starts a server with each key source for which wanted returns true. It waits until the pools of these servers are
// full.
func launch(stage *sources.Stage, wanted func(*found) bool, found []*found, settings ...string) (all []*sources.Running) {
	for _, f := range found {
		if wanted(f) {
			all = append(all, stage.Launch(&f.Source, stage.Supply(&f.Source, ""), append(settings, fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys))...))
		}
	}
	stage.AwaitFull(all)
	return all
}

// supplied is the way in which a key source depends on its supply.
type supplied string

const (
	ahead   supplied = "ahead"   // one call to the supply gets many keys for later use
	perKey  supplied = "per key" // each key needs a call to the supply
	without supplied = "without" // the key source has no supply
	rival   supplied = "rival"   // the key source is a rival; its calls and crashes are not judged
)

func (f *found) supplied() supplied {
	switch {
	case isRival(&f.Source):
		return rival
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
		atMost(ahead, mostAhead, "calls", calls, "key sources with batches make few calls",
			fmt.Sprintf("A key source that takes keys in batches calls its supply (Redis, PostgreSQL or the key service) at most %.2f times per creation.", mostAhead)),
		atMost(perKey, perKeyOff, "calls above or below 1", func(f *found) (off measure.Series) {
			if len(f.calls) > 0 {
				off = measure.Series{math.Abs(f.calls.Median() - 1)}
			}
			return off
		}, "counters make one call per creation", fmt.Sprintf("The key sources redis-incr and ticket make one call per creation, to Redis or to a ticket database. The average differs from 1 by at most %.2f.", perKeyOff)),
		atMost(without, mostWithout, "calls", calls, "other key sources make no calls",
			fmt.Sprintf("Key sources that compute their codes (snowflake, hash, uuid and random) make at most %.2f calls per creation. A key needs no call, so the only calls are the few that every server makes even when it is idle.", mostWithout)),
		atMost(ahead, mostSkipped, "numbers per crash", skipped, "a crash costs at most two batches",
			fmt.Sprintf("If a key source takes keys in batches, a crash of a server loses at most %d numbers on average: two batches of %d keys, and the keys of the creations in progress.", mostSkipped, crashBatch)),
		atMost(perKey, fewSkipped, "numbers per crash", skipped, "a crash with a counter loses few numbers",
			fmt.Sprintf("With redis-incr or ticket, a crash of a server loses at most %d numbers on average. These are the numbers of the creations in progress.", fewSkipped)),
	}, outageClaims(), []experiment.Claim[record]{
		{
			Name: "a pool is faster than the rivals", Unit: "ratio", Kind: report.Speed, Judge: judgeRivals,
			Text: "With " + pool + ", a server makes more links per second than with either of two simpler designs: a table of keys under one lock, and a set in Redis with one SPOP for each creation. " +
				"Rates of the same round are compared.",
		},
		{Name: "comparison ends in time", Text: fmt.Sprintf("The comparison takes at most %.0f minutes.", limit.Minutes()), Unit: "s", Kind: report.Speed, Judge: judgeTime},
		sources.EachMeasured(func(r *record) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *record) *loadtest.Verdict { return r.Links }))
}

// atMost returns a claim about the key sources of one kind of supply. The claim holds if the median of each of these key
// sources is at most bound. The function values returns the series of a key source.
func atMost(kind supplied, bound float64, unit string, values func(*found) measure.Series, name, text string) experiment.Claim[record] {
	return experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
		var worst *found
		for _, f := range r.found {
			if f.supplied() == kind && len(values(f)) > 0 && (worst == nil || values(f).Median() > values(worst).Median()) {
				worst = f
			}
		}
		if worst == nil {
			return experiment.Verdict{}
		}
		return experiment.AtMost(bound, values(worst).Median(), "the largest value is %.4g %s, and the key source %s has it", values(worst).Median(), unit, worst.Name)
	}}
}

func judgeRivals(r *record) experiment.Verdict {
	worst, name := math.Inf(1), ""
	for _, rival := range []string{lockedTable, redisSet} {
		ratios := r.of(pool).rate.Over(r.of(rival).rate)
		if len(ratios) == 0 {
			return experiment.Verdict{}
		}
		if ratio := ratios.Median(); ratio < worst {
			worst, name = ratio, rival
		}
	}
	return experiment.AtLeast(1, worst, "the smallest ratio is %.2f, which is the ratio to the rival %s", worst, name)
}

func judgeTime(r *record) experiment.Verdict {
	switch {
	case r.took == 0:
		return experiment.Verdict{}
	case !r.usual:
		return experiment.NotJudged("the run is scaled, so the limit does not apply; the run took %s", report.Duration(r.took))
	}
	return experiment.AtMost(limit.Seconds(), math.Round(r.took.Seconds()), "the run took %s", report.Duration(r.took))
}
