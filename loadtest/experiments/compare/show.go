package compare

import (
	"cmp"
	"fmt"
	"slices"

	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const unknown = "–" // where nothing was measured

// column is a property of the key sources: a column of the table of all of them, or a row of INCR
// against KGS, or both.
type column struct {
	title  string
	unit   string
	series func(*found) measure.Series // nil for text
	text   func(*found) string         // "" where nothing was measured
	duel   bool                        // only in INCR against KGS
	chart  string                      // the title of its chart, "" for none
}

func columns() []column {
	rate := fmt.Sprintf("creations on %d connections", measure.Connections)
	redis := func(fallback string, cell func(*outage) string) func(*found) string {
		return func(f *found) string {
			for _, o := range f.outages {
				if o.victim == theRedis && o.fallback == fallback {
					return cell(o)
				}
			}
			return ""
		}
	}
	return []column{
		{title: "its codes are", text: func(f *found) string { return f.Title }},
		{title: "calls per creation", unit: "calls", series: func(f *found) measure.Series { return f.calls }},
		{title: rate, unit: measure.PerSecond, series: func(f *found) measure.Series { return f.rate }, chart: "How fast links are made"},
		{title: "of the best", unit: measure.Times, series: func(f *found) measure.Series { return f.best }},
		{title: fmt.Sprintf("p99 at %d/s", steadyRate), unit: "ms", series: func(f *found) measure.Series { return f.p99 }},
		{title: "refused in the worst round", unit: "%", series: func(f *found) measure.Series { return f.refused }},
		{title: "skipped per crash", unit: "numbers", series: func(f *found) measure.Series { return f.skipped }},
		{title: "index per link", unit: "bytes", series: func(f *found) measure.Series { return f.index }},
		{title: "log per link", unit: "bytes", series: func(f *found) measure.Series { return f.log }},
		{title: "memory of Redis", text: func(f *found) string { return f.memory }, duel: true},
		{title: "without its supply it goes on for", unit: "s", series: (*found).local, chart: "How long creations go on without the supply"},
		{title: "without Redis it answers", text: redis("none", (*outage).answered), duel: true},
		{title: "without Redis, with the default fallback", text: redis(random, (*outage).String), duel: true},
		{title: "after Redis is back it serves again within", text: redis("none", (*outage).again), duel: true},
	}
}

// cell is the median of a series, or its spread, or the text.
func (c column) cell(f *found, spread bool) string {
	switch {
	case c.text != nil:
		return cmp.Or(c.text(f), unknown)
	case len(c.series(f)) == 0:
		return unknown
	case spread:
		return c.series(f).Spread(c.unit)
	}
	return measure.Quantity(c.series(f).Median(), c.unit)
}

// draw has a line for each key source with figures, the first at the top.
func (c column) draw(all []*found) report.Chart {
	each := report.Series{Name: "each measurement", Points: true}
	chart := report.Chart{Title: c.chart, X: report.Axis{Label: c.title, Unit: c.unit}}
	for _, f := range slices.Backward(all) {
		y := float64(len(chart.Y.Names))
		for _, v := range c.series(f) {
			each.XY = append(each.XY, [2]float64{v, y})
		}
		if len(c.series(f)) > 0 {
			chart.Y.Names = append(chart.Y.Names, report.Mark{At: y, Name: f.Name})
		}
	}
	chart.Series = []report.Series{each}
	return chart
}

func show(r *record, e *report.Experiment) {
	e.Settings = map[string]string{
		"DATABASE_URL": "postgres://..., synchronous_commit=on, a database for each", "FALLBACK": "none; random where a table says so", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys),
		"Redis": "without persistence, also for the counter of redis-incr",
	}
	all := report.Table{Title: "All key sources", Columns: []string{"key source"}, Rows: make([][]string, len(r.found))}
	for i, f := range r.found {
		all.Rows[i] = []string{f.Name}
	}
	duel := report.Table{Title: "INCR against KGS", Columns: []string{"", "INCR (" + incr + ")", "KGS (" + pool + ")"}}
	for _, c := range columns() {
		duel.Rows = append(duel.Rows, []string{c.title, c.cell(r.of(incr), true), c.cell(r.of(pool), true)})
		if !c.duel {
			all.Columns = append(all.Columns, c.title)
			for i, f := range r.found {
				all.Rows[i] = append(all.Rows[i], c.cell(f, false))
			}
		}
		if c.chart == "" {
			continue
		}
		if chart := c.draw(r.found); len(chart.Y.Names) > 0 {
			e.Charts = append(e.Charts, chart)
		}
	}
	outages := report.Table{Title: "During the outage, and after it", Columns: []string{
		"key source", "killed", "FALLBACK", "creations during the outage", "refusals", "goes on for", "serves again after",
	}}
	for _, o := range r.outagesOf(func(*found, *outage) bool { return true }) {
		outages.Rows = append(outages.Rows, []string{o.name, o.victim, o.fallback, o.String(), o.answered(), tenths(o.local), o.again()})
	}
	e.Tables = []report.Table{all, duel, outages}
	e.Notes = []string{
		fmt.Sprintf("Rates are those of wrk, which waits for each answer; the p99 is from when a creation was due. Both last %.0f s in each of %d rounds, all key sources in turn, after the pool "+
			"was filled again. Every acknowledged creation has a row in the database. Calls are those that PostgreSQL, Redis and the key service count.",
			r.each.Seconds(), r.rounds),
		fmt.Sprintf("Each server was killed %d times while %d clients made links on it. Skipped are the numbers that no link has, with KGS_PERMUTE=false. They are gone for good, except keys that are "+
			"reserved in PostgreSQL: those are given out again ten minutes after their server died. Codes without a number skip none.", r.crashes, crashClients),
		fmt.Sprintf("An outage lasts some seconds, under %d creations per second, or %d where PostgreSQL with the links is killed under all. Redis comes back empty: a pool is filled anew, and a "+
			"counter begins anew over links that exist. Where a code came from is what its row in the database says.", outageRate, crowdRate),
		fmt.Sprintf("The index has %s links of each kind of code, made by the statement of the store. The log holds images of whole pages, which PostgreSQL writes when it first changes a page "+
			"after one of the %d checkpoints.", report.Number(float64(r.links)), indexRounds),
	}
}
