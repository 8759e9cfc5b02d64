package compare

import (
	"fmt"
	"slices"
	"strings"

	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// overview has a row for each key source.
func (r *record) overview() report.Table {
	t := report.Table{Title: "All key sources", Columns: []string{
		"key source", "its codes are", "creations/s", "of the best", "p99 ms", "calls per creation", "index bytes per link", "skipped per crash", "without its own supply",
	}}
	r.eachFound(func(s *sources.Source, f *found) {
		speed := []string{unknown, unknown, unknown, unknown}
		if len(f.rate) > 0 && len(f.p99) > 0 {
			speed = []string{report.Number(f.rate.Median()), fmt.Sprintf("%.2f", f.best.Median()), fmt.Sprintf("%.1f", f.p99.Median()), f.callsCell()}
		}
		t.Rows = append(t.Rows, slices.Concat([]string{s.Name, s.Title}, speed, []string{r.indexCell(s), f.skippedCell(s), f.outageCell()}))
	})
	return t
}

func (r *record) indexCell(s *sources.Source) string {
	if r.index[s.Class] == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f", r.index[s.Class].bytes)
}

// outageCell is what happens without what only this key source needs, and without a fallback.
func (f *found) outageCell() string {
	var parts []string
	for _, o := range f.outages {
		if o.victim != thePostgres && o.fallback == "none" {
			parts = append(parts, o.victim+": "+o.lasting())
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case len(f.outages) > 0:
		return "needs none"
	}
	return unknown
}

// duel sets INCR against KGS, with a row for each property that one of them is chosen for.
func (r *record) duel() report.Table {
	t := report.Table{Title: "INCR against KGS", Columns: []string{"", "INCR (" + incr + ")", "KGS (" + pool + ")"}}
	line := func(what string, cell func(*sources.Source, *found) string) {
		cells := map[string]string{incr: unknown, pool: unknown}
		r.eachFound(func(s *sources.Source, f *found) { cells[s.Name] = cell(s, f) })
		t.Rows = append(t.Rows, []string{what, cells[incr], cells[pool]})
	}
	figures := func(what, unit string, of func(*found) measure.Series) {
		line(what, func(_ *sources.Source, f *found) string { return spread(of(f), unit) })
	}
	redis := func(what, fallback string, cell func(*outage) string) {
		line(what, func(_ *sources.Source, f *found) string {
			for _, o := range f.outages {
				if o.victim == theRedis && o.fallback == fallback {
					return cell(o)
				}
			}
			return unknown
		})
	}
	line("calls of Redis and ledger per creation", func(_ *sources.Source, f *found) string { return f.callsCell() })
	figures(fmt.Sprintf("creations/s on %d connections", measure.Connections), measure.PerSecond, func(f *found) measure.Series { return f.rate })
	figures("of the best key source", measure.Times, func(f *found) measure.Series { return f.best })
	figures(fmt.Sprintf("p99 at %d/s", steadyRate), "ms", func(f *found) measure.Series { return f.p99 })
	redis("Redis killed: the key source itself goes on for", "none", (*outage).lasting)
	redis("and then answers", "none", (*outage).answered)
	redis("with the default fallback", random, (*outage).String)
	redis("serves again by itself after", "none", (*outage).again)
	line("numbers skipped per crash of the server", func(s *sources.Source, f *found) string { return f.skippedCell(s) })
	line("index bytes per link after a million", func(s *sources.Source, _ *found) string { return r.indexCell(s) })
	line("log bytes per link", func(s *sources.Source, _ *found) string {
		if r.index[s.Class] == nil {
			return unknown
		}
		return fmt.Sprintf("%.0f", r.index[s.Class].wal)
	})
	line("memory of Redis", func(_ *sources.Source, f *found) string { return f.memory.String() })
	return t
}

// String says it in a cell.
func (m *memory) String() string {
	switch {
	case m == nil:
		return unknown
	case m.keys == 0:
		return report.Number(float64(m.listed+m.rest)) + " bytes in all"
	}
	return fmt.Sprintf("%.2f bytes per key that waits, and %s bytes for batches that servers hold", float64(m.listed)/float64(m.keys), report.Number(float64(m.rest)))
}
