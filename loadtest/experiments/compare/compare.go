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
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	unknown = "–" // where nothing was measured
	// limit is how long the comparison may take on two cores, so that the whole group takes at
	// most ten minutes.
	limit = 9 * time.Minute
)

// Experiments returns the comparison. Its parts about codes and about the space are experiments
// of packages guess and space.
func Experiments() []*experiment.Experiment {
	claims := slices.Concat(speedClaims(), crashClaims(), outageClaims(), []experiment.Claim[record]{
		smallerIndex(), inTime(), sources.EachMeasured(func(r *record) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *record) *loadtest.Verdict { return r.Links }))
	return []*experiment.Experiment{experiment.Define(experiment.Definition[record]{
		Name: "compare/keysources", Title: "Every key source side by side",
		Summary: fmt.Sprintf("Creations as fast as %d connections allow, then %d per second; servers killed again and again; whatever a key source needs killed for some "+
			"seconds; and a million links of each kind of code in an index.", measure.Connections, steadyRate),
		Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Run: run, Show: show, Claims: claims,
		// Servers that acknowledge links without storing them answer for them from memory at first.
		Controls: []experiment.Control{{Without: []string{"store"}, Refutes: measure.NoLostLink, AlsoRefutes: []string{"every key source measured"}}},
	})}
}

// record is what the experiment observes.
type record struct {
	sources.Observed
	found map[string]*found          // by key source
	index map[sources.Class]*indexed // by kind of code

	rounds, crashes int
	each            time.Duration
	links           int64 // in each table of the index

	usual bool          // nothing was scaled, so the time of all is limited
	took  time.Duration // all of it; 0 until the end
	// Why the environment was unfit to measure times: of all, of the outages of supplies, and of PostgreSQL.
	unfit, unfitSupplies, unfitPostgres string
}

// found is what is observed of one key source. What is nil was not measured.
type found struct {
	rate, p99 measure.Series // creations per second; ms
	best      measure.Series // the rate as a share of the best of the same round
	calls     measure.Series // per creation
	memory    *memory
	skipped   *float64 // numbers per crash
	outages   []*outage

	// The share of creations that was refused in the worst round, flat out and at the steady rate.
	refusedFlat, refused float64
}

func run(t *experiment.T, rec *record) {
	begun, environment := time.Now(), measure.Observe()
	rec.rounds, rec.crashes, rec.links = t.Times(3), t.Times(20), int64(t.Times(1_000_000))
	rec.each, rec.usual = max(time.Second, t.Duration.Truncate(time.Second)), t.Scale == 1 && t.Duration == 0
	if t.Duration == 0 {
		rec.each = 2 * time.Second
	}
	rec.found = make(map[string]*found)
	for _, s := range sources.Compared() {
		rec.found[s.Name] = &found{}
	}
	m := newMeter(t)
	rec.speed(t, m)
	rec.crash(t, m.Stage)
	rec.outages(t, m.Stage)
	rec.fill(t, m.Stage)
	rec.Complete, rec.took, rec.unfit = true, time.Since(begun), environment.Unfit()
}

func inTime() experiment.Claim[record] {
	return experiment.Claim[record]{
		Name: "in time", Text: fmt.Sprintf("The comparison takes at most %.0f minutes.", limit.Minutes()), Unit: "s", Kind: report.Speed,
		Judge: func(r *record) experiment.Verdict {
			switch {
			case r.took == 0:
				return experiment.Verdict{}
			case !r.usual:
				return experiment.NotJudged("the run is scaled and takes %s", report.Duration(r.took))
			}
			return experiment.AtMost(limit.Seconds(), math.Round(r.took.Seconds()), "it takes %s", report.Duration(r.took)).Unless(r.unfit)
		},
	}
}

// fail records that a key source could not be measured. The first reason counts.
func (r *record) fail(name string, err error) {
	if !slices.ContainsFunc(r.Failed, func(f string) bool { return strings.HasPrefix(f, name+": ") }) {
		r.Failed = append(r.Failed, name+": "+err.Error())
	}
}

// supplied says how a key source depends on its supply.
type supplied string

const (
	ahead   supplied = "ahead"   // it takes many keys at a time, ahead of use
	perKey  supplied = "per key" // it calls its supply for each key
	without supplied = "without" // it has no supply
	random           = "random"  // the key source, and the fallback, of random codes
	incr             = "redis-incr"
	pool             = "redis-pool"
)

func suppliedOf(s *sources.Source) supplied {
	switch {
	case s.Tickets || s.Redis && s.Class == sources.Counter:
		return perKey
	case s.Name == random || s.Class != sources.Random && s.Class != sources.Counter:
		return without
	}
	return ahead
}

// worst is the greatest value of the key sources that depend on their supply so. value returns false
// where nothing was measured.
func (r *record) worst(how supplied, value func(*found) (float64, bool)) (worst float64, name string) {
	for _, s := range sources.Compared() {
		f := r.found[s.Name]
		if f == nil || suppliedOf(&s) != how {
			continue
		}
		if v, known := value(f); known && (name == "" || v > worst) {
			worst, name = v, s.Name
		}
	}
	return worst, name
}

// atMost is a claim that no key source that depends on its supply so exceeds a bound.
func atMost(how supplied, bound float64, name, text, unit string, value func(*found) (float64, bool)) experiment.Claim[record] {
	return experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
		worst, of := r.worst(how, value)
		if of == "" {
			return experiment.Verdict{}
		}
		return experiment.AtMost(bound, worst, "the most: %s with %.4g", of, worst)
	}}
}

// points are figures of one kind, some of each key source.
type points struct {
	name   string
	values map[string][]float64 // by key source
}

// collect returns the points of all key sources.
func (r *record) collect(name string, values func(*found) []float64) points {
	p := points{name, make(map[string][]float64)}
	for source, f := range r.found {
		if v := values(f); len(v) > 0 {
			p.values[source] = v
		}
	}
	return p
}

// chart has a line for each key source with figures, the first at the top.
func chart(title, label, unit string, kinds ...points) report.Chart {
	c := report.Chart{Title: title, X: report.Axis{Label: label, Unit: unit}, Series: make([]report.Series, len(kinds))}
	for i, kind := range kinds {
		c.Series[i] = report.Series{Name: kind.name, Points: true}
	}
	for _, s := range slices.Backward(sources.Compared()) {
		if !slices.ContainsFunc(kinds, func(p points) bool { return len(p.values[s.Name]) > 0 }) {
			continue
		}
		y := float64(len(c.Y.Names))
		c.Y.Names = append(c.Y.Names, report.Mark{At: y, Name: s.Name})
		for i, kind := range kinds {
			for _, v := range kind.values[s.Name] {
				c.Series[i].XY = append(c.Series[i].XY, [2]float64{v, y})
			}
		}
	}
	return c
}

// show shows the parts, the summary first.
func show(r *record, e *report.Experiment) {
	e.Settings = map[string]string{
		"DATABASE_URL": "postgres://..., synchronous_commit=on, a database for each", "FALLBACK": "none; random where a table says so", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys),
		"Redis": "without persistence, also for the counter of redis-incr",
	}
	e.Tables = []report.Table{r.overview(), r.duel()}
	for _, part := range []func(*report.Experiment){r.showSpeed, r.showCrashes, r.showOutages, r.showIndex} {
		part(e)
	}
	e.Charts = slices.DeleteFunc(e.Charts, func(c report.Chart) bool { return len(c.Y.Names) == 0 })
}

// eachFound calls do for every key source in the order of reports.
func (r *record) eachFound(do func(s *sources.Source, f *found)) {
	for _, s := range sources.Compared() {
		if f := r.found[s.Name]; f != nil {
			do(&s, f)
		}
	}
}
