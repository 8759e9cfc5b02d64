package outage

import (
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// bin is the time over which creations are counted for a chart.
const bin = 250 * time.Millisecond

// show adds settings, charts, the table and notes.
func show(r *record, e *report.Experiment) {
	e.Notes = append([]string{
		"How long local keys last is predicted for each server from the keys that it held when Redis was killed and from its share of the rate. The servers " +
			"reported these keys right after the kill, when no key reached them any more; the keys taken in between are added.",
		"The code itself shows where it came from: the harness knows the secret of the permutation, and a number that was never reserved belongs to a random code.",
	}, r.notes...)
	if r.servers > 0 {
		e.Settings = map[string]string{
			"servers": fmt.Sprint(r.servers), "creations": report.Quantity(r.rate, "per second in all, in turn"),
			"KGS_BATCH_MIN, KGS_BATCH_MAX": fmt.Sprint(r.batch), "FALLBACK": "random", "store": "one PostgreSQL, synchronous_commit=on",
			"Redis": "keeps nothing on disk",
		}
	}
	if r.whole {
		e.Charts, e.Tables = r.charts(), []report.Table{r.table()}
	}
}

func (r *record) charts() []report.Chart {
	x, marks := report.Axis{Label: "time since Redis was killed", Unit: "s"}, r.marks()
	over := func(name string, value func(look) int64) report.Series {
		return report.Series{Name: name, XY: lab.Points(r.looks, r.killed, func(l look) (float64, bool) { return float64(value(l)), true })}
	}
	steps := func(name string, value func(look) int) report.Series {
		s := over(name, func(l look) int64 { return int64(value(l)) })
		s.Steps = true
		return s
	}
	return []report.Chart{
		{
			Title: "Creations by where their codes came from", X: x, Y: report.Axis{Label: "creations", Unit: "/s"}, Marks: marks,
			Series: r.bySource(),
		},
		{
			Title: "Local keys serve the creations until the fallback does", X: x, Marks: marks,
			Y:      report.Axis{Label: "local keys of all servers", Unit: "keys"},
			Series: []report.Series{over("observed", func(l look) int64 { return l.local }), r.predictedLine()},
		},
		{
			Title: "Circuit breakers", X: x, Y: report.Axis{Label: "breakers", Unit: "servers"}, Marks: marks,
			Series: []report.Series{
				steps("closed", func(l look) int { return l.closed }),
				steps("half-open", func(l look) int { return l.halfOpen }),
				steps("open", func(l look) int { return l.open }),
			},
		},
		{
			Title: "Latency of creations meanwhile", X: x, Y: report.Axis{Label: "latency of a creation", Unit: "ms"}, Marks: marks,
			Series: []report.Series{measure.P99Line(r.seconds, r.killed)},
		},
	}
}

func (r *record) marks() []report.Mark {
	marks := []report.Mark{
		{At: 0, Name: "Redis killed"},
		{At: mean(r.predicted()).Seconds(), Name: "local keys used up, predicted"},
		{At: r.back.Sub(r.killed).Seconds(), Name: "Redis back"},
	}
	if took, all := r.recovery(); all {
		marks = append(marks, report.Mark{At: r.back.Add(took).Sub(r.killed).Seconds(), Name: "all from batches"})
	}
	return marks
}

// bySource are the creations per second by where their codes came from.
func (r *record) bySource() []report.Series {
	names := []string{"from a batch", "from the fallback", "failed"}
	counts := make([]map[int]int, len(names))
	for i := range counts {
		counts[i] = make(map[int]int)
	}
	first, last := 0, 0
	for _, creations := range r.creations {
		for _, c := range creations {
			at, source := int(c.at.Sub(r.killed).Round(bin)/bin), 0
			switch {
			case !c.created:
				source = 2
			case c.random(r.after):
				source = 1
			}
			counts[source][at]++
			first, last = min(first, at), max(last, at)
		}
	}
	var lines []report.Series
	for i, name := range names {
		line := report.Series{Name: name}
		for at := first + 1; at < last; at++ { // the first and the last are not complete
			line.XY = append(line.XY, [2]float64{(time.Duration(at) * bin).Seconds(), float64(counts[i][at]) / bin.Seconds()})
		}
		lines = append(lines, line)
	}
	return lines
}

// predictedLine is how the local keys decline, those of each server by its share of the rate.
func (r *record) predictedLine() report.Series {
	line := report.Series{Name: "predicted", Predicted: true}
	for at, end := time.Duration(0), slices.Max(r.predicted()); at < end+bin; at += bin {
		left := 0.0
		for i := range r.servers {
			left += max(0, float64(r.heldAtKill(i))-r.share()*at.Seconds())
		}
		line.XY = append(line.XY, [2]float64{at.Seconds(), left})
	}
	return line
}

func (r *record) table() report.Table {
	row := func(name string, predicted, observed time.Duration) []string {
		return []string{name, fmt.Sprintf("%.2f s", predicted.Seconds()), fmt.Sprintf("%.2f s", observed.Seconds())}
	}
	predicted, observed := r.predicted(), r.lasted()
	return report.Table{
		Title:   fmt.Sprintf("How long the local keys of %d servers lasted", r.servers),
		Columns: []string{"server", "predicted", "observed"},
		Rows: [][]string{
			row("the first without local keys", slices.Min(predicted), slices.Min(observed)),
			row("mean", mean(predicted), mean(observed)),
			row("the last without local keys", slices.Max(predicted), slices.Max(observed)),
		},
	}
}
