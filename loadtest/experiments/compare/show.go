package compare

import (
	"cmp"
	"fmt"

	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const unknown = "–" // shown where nothing was measured

// figure formats the median of a series. If the series has several figures, it also formats the smallest and the largest.
func figure(s measure.Series, unit string) string {
	if len(s) == 0 {
		return unknown
	}
	return s.Spread(unit)
}

// column is a property of a key source. It is a row of the table "INCR against KGS". If duel is
// false, it is also a column of the table "All key sources".
type column struct {
	title string
	cell  func(*found) string // the content of the cell of a key source; returns unknown or "" if nothing was measured
	duel  bool                // the property is only in the table "INCR against KGS"
}

func columns() []column {
	rate := fmt.Sprintf("creations on %d connections", measure.Connections)
	figures := func(unit string, series func(*found) measure.Series) func(*found) string {
		return func(f *found) string { return figure(series(f), unit) }
	}
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
		{title: "description", cell: func(f *found) string { return f.Title }},
		{title: "calls per creation", cell: figures("calls", func(f *found) measure.Series { return f.calls })},
		{title: rate, cell: figures(measure.PerSecond, func(f *found) measure.Series { return f.rate })},
		{title: "share of the best rate of its round", cell: figures(measure.Times, func(f *found) measure.Series { return f.best })},
		{title: fmt.Sprintf("p99 at %d/s", steadyRate), cell: figures("ms", func(f *found) measure.Series { return f.p99 })},
		{title: "highest share of refusals in any load", cell: figures("%", func(f *found) measure.Series { return f.refused })},
		{title: "numbers skipped per crash", cell: figures("numbers", func(f *found) measure.Series { return f.skipped })},
		{title: "single point of failure", cell: (*found).failure},
		{title: "code contains its time", cell: (*found).embedsTime},
		{title: "number of a code fits 64 bits", cell: (*found).bits},
		{title: "lines of code", cell: (*found).code},
		{title: "memory of Redis", cell: func(f *found) string { return f.memory }, duel: true},
		{title: "works without its supply for", cell: figures("s", (*found).local)},
		{title: "answers to failed creations after the kill of Redis", cell: redis("none", (*outage).answered), duel: true},
		{title: "creations without Redis, with the default fallback", cell: redis(random, (*outage).String), duel: true},
		{title: "time to recover after the restart of Redis", cell: redis("none", (*outage).again), duel: true},
	}
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
		cell := func(f *found) string { return cmp.Or(c.cell(f), unknown) }
		duel.Rows = append(duel.Rows, []string{c.title, cell(r.of(incr)), cell(r.of(pool))})
		if c.duel {
			continue
		}
		all.Columns = append(all.Columns, c.title)
		for i, f := range r.found {
			all.Rows[i] = append(all.Rows[i], cell(f))
		}
	}
	outages := report.Table{Title: "Creations during and after outages", Columns: []string{
		"key source", "killed component", "FALLBACK", "creations during the outage", "answers to creations that failed during or after the outage", "works without its supply for", "time to recover",
	}}
	for _, o := range r.outagesOf(func(*found, *outage) bool { return true }) {
		outages.Rows = append(outages.Rows, []string{o.name, o.victim, o.fallback, o.String(), o.answered(), tenths(o.local), o.again()})
	}
	e.Tables = []report.Table{all, duel, outages}
	e.Notes = []string{
		"The single point of failure is the component, besides the database of the links, whose failure stops the key source when its local keys are used up. The two ticket databases are two PostgreSQL servers, and neither is the database of the links. " +
			"The lines of code are those of the packages that the key source needs, without tests, comments, blank lines and the code that the server needs with any key source. " +
			"The rivals " + lockedTable + " and " + redisSet + " are not values of KEY_SOURCE: each takes one prepared key for each creation, and this experiment builds them into a server. They record neither batches nor epochs, " +
			"so a crash or an older copy of their data can lose keys or issue keys again. Therefore the experiment does not measure them in crashes and outages.",
		fmt.Sprintf("A cell with several figures shows their median, and the smallest and the largest in brackets. The rates are those of wrk, which waits for each answer. The p99 is measured from the time at which a creation was due. Each load lasts %.0f s in each of %d rounds. "+
			"A round loads all key sources one after the other, each after its pool was filled again. Each round has its own best rate, which is the highest rate of any key source in that round. Every acknowledged creation has a row in the database. The calls are counted by "+
			"PostgreSQL, Redis and the key service.",
			r.each.Seconds(), r.rounds),
		fmt.Sprintf("Each server ran with KGS_PERMUTE=false and was killed %d times while %d clients made links on it. Skipped numbers are numbers that the server took and that no link has. "+
			"They are lost, with one exception: keys that postgres-pool-reserve marked as reserved are given out again ten minutes after the crash. Key sources without numbers skip none.", r.crashes, crashClients),
		fmt.Sprintf("The supply of a key source is the component that its keys come from. An outage lasts some seconds. The time to recover begins when the restarted component answers. Each server gets %d creations per second, or %d where the "+
			"PostgreSQL that holds all links is killed. Redis is empty after its restart, so a pool is filled again, and a counter starts again at 1, although its first codes are already in use. "+
			"The row of a link in the database says where its code came from.", outageRate, crowdRate),
	}
}
