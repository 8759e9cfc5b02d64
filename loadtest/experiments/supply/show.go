package supply

import (
	"fmt"
	"time"

	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// show adds charts, the table and notes.
func show(r *record, e *report.Experiment) {
	if r.filled == nil {
		e.Claims = e.Claims[:len(e.Claims)-len(fillClaims())] // the last ones need --full
	} else if r.filled.complete {
		r.filled.show(r.rate, e)
	}
	if !r.started.IsZero() {
		e.Settings = map[string]string{
			"KGS_POOL_CAPACITY": fmt.Sprint(r.capacity), "KGS_BATCH_MAX": fmt.Sprint(batch),
			"creations": report.Quantity(r.rate, "per second"), "store": "PostgreSQL, synchronous_commit=on",
		}
		e.Charts, e.Tables = append(e.Charts, r.charts()...), append(e.Tables, r.alertTable())
		e.Notes = append(e.Notes, fmt.Sprintf("A pool lasts as long as its keys divided by the rate. At %.0f/s one of 1,000,000 keys lasts %s, one of 5,000,000 %s "+
			"and one of 100,000,000 %s.", usualRate, lasting(1e6/usualRate), lasting(5e6/usualRate), lasting(100e6/usualRate)))
	}
	e.Notes = append(e.Notes, r.notes...)
}

// lasting writes a time.
func lasting(seconds float64) string {
	return report.Duration(time.Duration(seconds * float64(time.Second)))
}

// at is a moment on the time axis of the charts.
func (r *record) at(t time.Time) float64 { return t.Sub(r.started).Seconds() }

// charts compare what was predicted with what was observed.
func (r *record) charts() []report.Chart {
	x, marks := report.Axis{Label: "time since the worker was stopped", Unit: "s"}, r.marks()
	predicted := report.Series{Name: "predicted from the first tenth", Predicted: true}
	if r.predicted.slope > 0 {
		predicted.XY = [][2]float64{{r.at(r.predicted.zero), r.predicted.keys}, {r.at(r.predicted.empty()), 0}}
	}
	return []report.Chart{
		{
			Title: "Keys in the pool, predicted and observed", X: x, Y: report.Axis{Label: "keys in Redis", Unit: "keys"}, Marks: marks,
			Series: []report.Series{{Name: "observed", XY: line(since(r.seen, r.started), r.started)}, predicted},
			Levels: []report.Mark{{At: restartBelow * float64(r.capacity), Name: "20 %: restart"}, {At: pageBelow * float64(r.capacity), Name: "10 %: page"}},
		},
		{
			Title: "Latency of creations meanwhile", X: x, Y: report.Axis{Label: "p99 of each second", Unit: "ms"}, Marks: marks,
			Series: []report.Series{measure.P99Line(r.seconds, r.started)},
		},
	}
}

// signals are the alerts since the worker was stopped.
func (r *record) signals() (alerts []lab.Alert) {
	for _, a := range r.alerts {
		if !a.Received.Before(r.started) {
			alerts = append(alerts, a)
		}
	}
	return alerts
}

// marks are the moments that came.
func (r *record) marks() []report.Mark {
	marks := []report.Mark{{At: 0, Name: "worker stopped"}}
	for _, a := range r.signals() {
		marks = append(marks, report.Mark{At: r.at(a.Received), Name: "signal: " + a.State})
	}
	for i, t := range []time.Time{r.empty, r.back, r.full} {
		if !t.IsZero() {
			marks = append(marks, report.Mark{At: r.at(t), Name: [...]string{"pool empty", "worker back", "pool full"}[i]})
		}
	}
	return marks
}

// alertTable shows the signals of the dead man's switch.
func (r *record) alertTable() report.Table {
	t := report.Table{Title: "Signals of the dead man's switch", Columns: []string{"signal", "received", "keys in the pool then"}}
	for _, a := range r.signals() {
		t.Rows = append(t.Rows, []string{a.State, fmt.Sprintf("%.1f s", r.at(a.Received)), fmt.Sprint(keysAt(r.seen, a.Received))})
	}
	return t
}
