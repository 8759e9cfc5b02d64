package outage

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// bin is the interval in which a chart counts creations.
const bin = 250 * time.Millisecond

// show adds the settings, charts, table and notes of a run to its report.
func show(r *record, e *report.Experiment) {
	e.Notes = append([]string{
		"The predicted time for a server is the number of its local keys when Redis was killed, divided by its share of the rate. " +
			"The servers reported their keys right after the kill. The keys that were taken between the kill and the report are added.",
		"The load test computes from each code whether the fallback made it. It has the secret of the permutation, so it knows the number that a code stands for. " +
			"The fallback made the code if this number was never reserved.",
	}, r.notes...)
	if !r.whole {
		return
	}
	e.Settings = map[string]string{
		"servers": fmt.Sprint(r.servers), "creations": report.Quantity(r.rate, "per second on all servers together"),
		"KGS_BATCH_MIN, KGS_BATCH_MAX": fmt.Sprint(r.batch), "FALLBACK": "random", "store": "one PostgreSQL, synchronous_commit=on",
		"Redis": "keeps nothing on disk",
	}
	predicted, observed := r.localKeys()
	e.Charts = r.charts(predicted)
	e.Tables = []report.Table{{
		Title:   fmt.Sprintf("How long the local keys of %d servers lasted", r.servers),
		Columns: []string{"server", "predicted", "observed"},
	}}
	for _, row := range []struct {
		name string
		of   func(measure.Series) float64
	}{
		{"first to run out", slices.Min[measure.Series]}, {"mean", mean}, {"last to run out", slices.Max[measure.Series]},
	} {
		e.Tables[0].Rows = append(e.Tables[0].Rows, []string{row.name, fmt.Sprintf("%.2f s", row.of(predicted)), fmt.Sprintf("%.2f s", row.of(observed))})
	}
}

// charts returns a chart of the predicted and observed local keys, and a chart of the sources of the codes.
func (r *record) charts(predicted measure.Series) []report.Chart {
	x := report.Axis{Label: "time since Redis was killed", Unit: "s"}
	marks := []report.Mark{
		{At: 0, Name: "Redis killed"}, {At: mean(predicted), Name: "local keys used up, predicted"}, {At: r.back.Sub(r.killed).Seconds(), Name: "Redis available again"},
	}
	if took, servers := r.recovery(); servers == r.servers {
		marks = append(marks, report.Mark{At: r.back.Add(took).Sub(r.killed).Seconds(), Name: "all servers take batches again"})
	}
	declining := report.Series{Name: "local keys", Predicted: true}
	for at := 0.0; at < slices.Max(predicted)+bin.Seconds(); at += bin.Seconds() {
		left := 0.0
		for _, lasts := range predicted { // each server uses keys at its share of the rate
			left += max(0, lasts-at) * r.rate / float64(r.servers)
		}
		declining.XY = append(declining.XY, [2]float64{at, left})
	}
	observed := report.Series{Name: "local keys", XY: lab.Points(r.looks, r.killed, func(l look) (float64, bool) { return float64(l.local), true })}
	return []report.Chart{
		{
			Title: "Local keys serve the creations until they are used up", X: x, Y: report.Axis{Label: "local keys of all servers", Unit: "keys"}, Marks: marks,
			Series: []report.Series{observed, declining},
		},
		{
			Title: "Creations by the source of their codes", X: x, Y: report.Axis{Label: "creations", Unit: "/s"}, Marks: marks,
			Series: r.bySource(),
		},
	}
}

// bySource returns the creations per second for each source of codes.
func (r *record) bySource() []report.Series {
	lines := []report.Series{{Name: "code from a batch"}, {Name: "code from the fallback"}, {Name: "failed"}}
	counts := make(map[int][3]float64) // by bin
	for _, c := range slices.Concat(r.creations...) {
		at, source := int(c.at.Sub(r.killed).Round(bin)/bin), 0
		switch {
		case !c.created:
			source = 2
		case c.random(r.after):
			source = 1
		}
		count := counts[at]
		count[source] += 1 / bin.Seconds()
		counts[at] = count
	}
	bins := slices.Sorted(maps.Keys(counts))
	for _, at := range bins[1:max(1, len(bins)-1)] { // the first and the last bin are not complete
		for i := range lines {
			lines[i].XY = append(lines[i].XY, [2]float64{(time.Duration(at) * bin).Seconds(), counts[at][i]})
		}
	}
	return lines
}
