package compare

import (
	"cmp"
	"fmt"
	"slices"

	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const unknown = "–" // shown where nothing was measured

// column is a property of a key source. It is a column of the table "All key sources", a row of the
// table "INCR against KGS", or both.
type column struct {
	title  string
	unit   string
	series func(*found) measure.Series // the figures of the column; nil if the column contains text
	text   func(*found) string         // the text of the column; returns "" if nothing was measured
	duel   bool                        // the property is only in the table "INCR against KGS"
	chart  string                      // title of its chart; "" for no chart
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
		{title: "description", text: func(f *found) string { return f.Title }},
		{title: "calls per creation", unit: "calls", series: func(f *found) measure.Series { return f.calls }},
		{title: rate, unit: measure.PerSecond, series: func(f *found) measure.Series { return f.rate }, chart: "How fast links are made"},
		{title: "share of the best rate of its round", unit: measure.Times, series: func(f *found) measure.Series { return f.best }},
		{title: fmt.Sprintf("p99 at %d/s", steadyRate), unit: "ms", series: func(f *found) measure.Series { return f.p99 }},
		{title: "highest share of refusals in any load", unit: "%", series: func(f *found) measure.Series { return f.refused }},
		{title: "numbers skipped per crash", unit: "numbers", series: func(f *found) measure.Series { return f.skipped }},
		{title: "index per link", unit: "bytes", series: func(f *found) measure.Series { return f.index }},
		{title: "PostgreSQL log (WAL) per link", unit: "bytes", series: func(f *found) measure.Series { return f.log }},
		{title: "single point of failure", text: (*found).failure},
		{title: "code contains its time", text: (*found).embedsTime},
		{title: "number of a code fits 64 bits", text: (*found).bits},
		{title: "lines of code", text: (*found).code},
		{title: "memory of Redis", text: func(f *found) string { return f.memory }, duel: true},
		{title: "works without its supply for", unit: "s", series: (*found).local, chart: "How long each key source works without its supply"},
		{title: "answers to failed creations after the kill of Redis", text: redis("none", (*outage).answered), duel: true},
		{title: "creations without Redis, with the default fallback", text: redis(random, (*outage).String), duel: true},
		{title: "time to recover after the restart of Redis", text: redis("none", (*outage).again), duel: true},
	}
}

// cell formats the median of a series, the spread of a series, or a text.
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

// draw returns a chart with a row of points for each key source that has figures. The first key source
// is at the top.
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
		"DATABASE_URL": "postgres://..., synchronous_commit=on, one database for each key source", "FALLBACK": "none; random where a table says so", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys),
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
	outages := report.Table{Title: "Creations during and after outages", Columns: []string{
		"key source", "killed component", "FALLBACK", "creations during the outage", "answers to failed creations, also after the restart", "works without its supply for", "time to recover",
	}}
	for _, o := range r.outagesOf(func(*found, *outage) bool { return true }) {
		outages.Rows = append(outages.Rows, []string{o.name, o.victim, o.fallback, o.String(), o.answered(), tenths(o.local), o.again()})
	}
	e.Tables = []report.Table{all, duel, outages}
	e.Notes = []string{
		"The single point of failure is the component, besides the database of the links, whose failure stops the key source when its local keys are used up. The two ticket databases are separate. " +
			"The lines of code are those of the packages that the key source needs, without tests, comments, blank lines and the code that the server needs with any key source. " +
			"The rivals " + lockedTable + " and " + redisSet + " are not values of KEY_SOURCE: each takes one prepared key for each creation, and this experiment builds them into a server. They record neither batches nor epochs, " +
			"so a crash or an older copy of their data can lose keys or issue keys again. Therefore the experiment does not measure them in crashes and outages.",
		fmt.Sprintf("The rates are those of wrk, which waits for each answer. The p99 is measured from the time at which a creation was due. Each load lasts %.0f s in each of %d rounds. "+
			"A round loads all key sources one after the other, each after its pool was filled again. Each round has its own best rate, which is the highest rate of any key source in that round. Every acknowledged creation has a row in the database. The calls are counted by "+
			"PostgreSQL, Redis and the key service.",
			r.each.Seconds(), r.rounds),
		fmt.Sprintf("Each server ran with KGS_PERMUTE=false and was killed %d times while %d clients made links on it. Skipped numbers are numbers that the server took and that no link has. "+
			"They are lost, with one exception: keys that postgres-pool-reserve marked as reserved are given out again ten minutes after the crash. Key sources without numbers skip none.", r.crashes, crashClients),
		fmt.Sprintf("The supply of a key source is the component that its keys come from. An outage lasts some seconds. The time to recover begins when the restarted component answers. Each server gets %d creations per second, or %d where the "+
			"PostgreSQL that holds all links is killed. Redis is empty after its restart, so a pool is filled again, and a counter starts again at 1, although its first codes are already in use. "+
			"The row of a link in the database says where its code came from.", outageRate, crowdRate),
		fmt.Sprintf("The index has %s links with each kind of code, inserted as the store does. The log includes images of whole pages. PostgreSQL writes such an image when it "+
			"first changes a page after one of the %d checkpoints.", report.Number(float64(r.links)), indexRounds),
	}
}
