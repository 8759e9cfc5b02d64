package supply

import (
	"fmt"
	"time"

	"keypool/loadtest/report"
)

// show adds the settings, chart, table and notes of a run to its report.
func show(r *record, e *report.Experiment) {
	lasts := func(rate, keys float64) string { return report.Duration(plan{rate: rate}.lasts(int64(keys))) }
	if r.filled == nil {
		e.Claims = e.Claims[:len(e.Claims)-len(fillClaims())] // the claims at the end need --full
	} else {
		e.Notes = append(e.Notes, fmt.Sprintf("At %.0f creations per second, a pool of 100,000,000 keys lasts %s. "+
			"The run therefore drained this pool for %v only. It then drained a smaller pool until that pool was empty.",
			r.rate, lasts(r.rate, largeKeys), largeDrain))
	}
	if !r.started.IsZero() {
		e.Settings = map[string]string{
			"KGS_POOL_CAPACITY": fmt.Sprint(r.capacity), "KGS_BATCH_MAX": fmt.Sprint(batch),
			"creations": report.Quantity(r.rate, "per second"), "store": "PostgreSQL, synchronous_commit=on",
		}
		marks, table := r.moments()
		e.Charts, e.Tables = []report.Chart{r.chart(marks)}, []report.Table{table}
		e.Notes = append(e.Notes, fmt.Sprintf("The time that a pool lasts is the number of its keys divided by the rate. At %.0f creations per second, a pool of 1,000,000 keys lasts %s, "+
			"a pool of 5,000,000 keys lasts %s, and a pool of 100,000,000 keys lasts %s.", usualRate, lasts(usualRate, 1e6), lasts(usualRate, 5e6), lasts(usualRate, 100e6)))
	}
	e.Notes = append(e.Notes, r.notes...)
}

// at returns the position of t on the time axis of the chart, in seconds.
func (r *record) at(t time.Time) float64 { return t.Sub(r.started).Seconds() }

// chart returns the chart of the predicted and observed levels.
func (r *record) chart(marks []report.Mark) report.Chart {
	predicted := report.Series{Name: "predicted from the first tenth of the drain", Predicted: true}
	if r.predicted.slope > 0 {
		predicted.XY = [][2]float64{{r.at(r.predicted.zero), r.predicted.keys}, {r.at(r.predicted.empty()), 0}}
	}
	return report.Chart{
		Title: "Keys in the pool, predicted and observed", Marks: marks,
		X: report.Axis{Label: "time since the worker was stopped", Unit: "s"}, Y: report.Axis{Label: "keys in Redis", Unit: "keys"},
		Series: []report.Series{{Name: "observed", XY: line(r.seen, r.started)}, predicted},
		Levels: []report.Mark{{At: restartBelow * float64(r.capacity), Name: "20 %: signal restart"}, {At: pageBelow * float64(r.capacity), Name: "10 %: signal page"}},
	}
}

// moments returns the events of the run as marks for the chart, and as a table with the level of the pool at
// each event.
func (r *record) moments() (marks []report.Mark, t report.Table) {
	t = report.Table{Title: "Events of the run", Columns: []string{"event", "time", "keys in the pool"}}
	add := func(name string, at time.Time) {
		if !at.IsZero() {
			marks = append(marks, report.Mark{At: r.at(at), Name: name})
			t.Rows = append(t.Rows, []string{name, fmt.Sprintf("%.1f s", r.at(at)), fmt.Sprint(keysAt(r.seen, at))})
		}
	}
	add("worker stopped", r.started)
	for _, a := range r.alerts {
		add("signal: "+a.State, a.Received)
	}
	add("pool empty", r.empty)
	add("worker started again", r.back)
	add("pool full", r.full)
	return marks, t
}
