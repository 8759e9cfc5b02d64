package scenario

import (
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/report"
)

// sourceBin is over how much time creations are added up, by where their codes came from.
const sourceBin = 250 * time.Millisecond

// draw enters what is to be seen; beats are the seconds of the run.
func (o *outageRun) draw(beats []sampled[beat]) {
	r := &o.record
	x, marks := report.Axis{Label: "time since Redis was killed", Unit: "s"}, o.marks()
	seen := func(name string, value func(fleetLook) int) report.Series {
		s := series(name, r.killed, r.looks, func(l fleetLook) (float64, bool) { return float64(value(l)), true })
		s.Steps = true
		return s
	}
	local := series("observed", r.killed, r.looks, func(l fleetLook) (float64, bool) { return float64(l.Local), true })
	p99 := series("p99 of each second", r.killed, beats, func(b beat) (float64, bool) {
		return milliseconds(b.Load.Latency.P99), b.Load.Sent > 0
	})
	o.Charts = []report.Chart{
		{
			Title: "Where the codes came from", X: x, Y: report.Axis{Label: "creations", Unit: "/s"}, Marks: marks,
			Series: o.sources(),
		},
		{
			Title: "Local keys carry the servers until the fallback does", X: x, Marks: marks,
			Y:      report.Axis{Label: "local keys of all servers", Unit: "keys"},
			Series: []report.Series{local, o.foretold()},
		},
		{
			Title: "Circuit breakers", X: x, Y: report.Axis{Label: "breakers", Unit: "servers"}, Marks: marks,
			Series: []report.Series{
				seen("closed", func(l fleetLook) int { return l.Closed }),
				seen("half-open", func(l fleetLook) int { return l.HalfOpen }),
				seen("open", func(l fleetLook) int { return l.Open }),
			},
		},
		{
			Title: "What it cost those who made links meanwhile", X: x, Y: report.Axis{Label: "latency of a creation", Unit: "ms"}, Marks: marks,
			Series: []report.Series{p99},
		},
	}
	o.Tables = []report.Table{o.table()}
}

func (o *outageRun) marks() []report.Mark {
	r := &o.record
	marks := []report.Mark{
		{At: 0, Name: "Redis killed"},
		{At: mean(o.predicted()).Seconds(), Name: "local keys gone, predicted"},
		{At: r.back.Sub(r.killed).Seconds(), Name: "Redis back"},
	}
	if took, all := o.recovery(); all {
		marks = append(marks, report.Mark{At: r.back.Add(took).Sub(r.killed).Seconds(), Name: "all from batches"})
	}
	return marks
}

// sources are the creations per second by where their codes came from.
func (o *outageRun) sources() []report.Series {
	r := &o.record
	const batch, random, failed = 0, 1, 2
	lines := []report.Series{{Name: "from a batch"}, {Name: "from the fallback"}, {Name: "failed"}}
	var counts [3]map[int]int
	for i := range counts {
		counts[i] = make(map[int]int)
	}
	first, last := 0, 0
	for _, creations := range r.creations {
		for _, c := range creations {
			bin := int(c.at.Sub(r.killed).Round(sourceBin) / sourceBin)
			first, last = min(first, bin), max(last, bin)
			switch {
			case !c.made:
				counts[failed][bin]++
			case c.random(r.after):
				counts[random][bin]++
			default:
				counts[batch][bin]++
			}
		}
	}
	for i := range lines {
		for bin := first + 1; bin < last; bin++ { // the outermost are not whole
			at := (time.Duration(bin) * sourceBin).Seconds()
			lines[i].XY = append(lines[i].XY, [2]float64{at, float64(counts[i][bin]) / sourceBin.Seconds()})
		}
	}
	return lines
}

// foretold is how the local keys go down, each server's by its share of the rate.
func (o *outageRun) foretold() report.Series {
	s := report.Series{Name: "predicted", Predicted: true}
	longest := slices.Max(o.predicted())
	for t := time.Duration(0); t < longest+sourceBin; t += sourceBin {
		left := 0.0
		for i := range o.servers {
			left += max(0, float64(o.heldAtKill(i))-o.share()*t.Seconds())
		}
		s.XY = append(s.XY, [2]float64{t.Seconds(), left})
	}
	return s
}

func (o *outageRun) table() report.Table {
	row := func(name string, predicted, observed time.Duration) []string {
		return []string{name, fmt.Sprintf("%.2f s", predicted.Seconds()), fmt.Sprintf("%.2f s", observed.Seconds())}
	}
	predicted, observed := o.predicted(), o.lasted()
	return report.Table{
		Title:   fmt.Sprintf("How long the local keys of %d servers lasted", o.servers),
		Columns: []string{"server", "predicted", "observed"},
		Rows: [][]string{
			row("the first to run out", slices.Min(predicted), slices.Min(observed)),
			row("on average", mean(predicted), mean(observed)),
			row("the last to run out", slices.Max(predicted), slices.Max(observed)),
		},
	}
}
