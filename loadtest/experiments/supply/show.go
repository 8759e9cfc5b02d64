package supply

import (
	"fmt"
	"time"

	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// at is a moment on the time axis of the charts.
func (r *record) at(t time.Time) float64 { return t.Sub(r.started).Seconds() }

// charts compare what was predicted with what was observed.
func (r *record) charts() []report.Chart {
	x, marks := report.Axis{Label: "time since the worker was stopped", Unit: "s"}, r.marks()
	during := since(r.seen, r.started)
	predicted := report.Series{Name: "predicted from the first tenth", Predicted: true}
	if r.predicted.slope > 0 {
		predicted.XY = [][2]float64{{r.at(r.predicted.zero), r.predicted.keys}, {r.at(r.predicted.empty()), 0}}
	}
	charts := []report.Chart{
		{
			Title: "Keys in the pool, predicted and observed", X: x, Y: report.Axis{Label: "keys in Redis", Unit: "keys"}, Marks: marks,
			Series: []report.Series{{Name: "observed", XY: thinned(line(during, r.started))}, predicted},
			Levels: []report.Mark{{At: 0.2 * float64(r.capacity), Name: "20 %: restart"}, {At: 0.1 * float64(r.capacity), Name: "10 %: page"}},
		},
		{
			Title: "Latency of creations meanwhile", X: x, Y: report.Axis{Label: "p99 of each second", Unit: "ms"}, Marks: marks,
			Series: []report.Series{afterStart(measure.P99Line(r.seconds, r.started))},
		},
	}
	if r.empty.IsZero() {
		return charts
	}
	runway := report.Series{Name: "reported by the service", XY: lab.Points(r.seconds, r.started,
		func(s lab.Second) (float64, bool) { return lab.Number(s.Status.RunwaySeconds) })}
	return append(charts, report.Chart{
		Title: "Runway, reported and observed", X: x, Y: report.Axis{Label: "time until the pool is empty", Unit: "s"}, Marks: marks,
		Series: []report.Series{afterStart(runway), {Name: "observed", XY: [][2]float64{{0, r.at(r.empty)}, {r.at(r.empty), 0}}}},
	})
}

// afterStart leaves out what was before the worker was stopped.
func afterStart(s report.Series) report.Series {
	kept := s.XY[:0]
	for _, xy := range s.XY {
		if xy[0] >= 0 {
			kept = append(kept, xy)
		}
	}
	s.XY = kept
	return s
}

// marks are the moments that came.
func (r *record) marks() []report.Mark {
	marks := []report.Mark{{At: 0, Name: "worker stopped"}}
	mark := func(t time.Time, name string) {
		if !t.IsZero() {
			marks = append(marks, report.Mark{At: r.at(t), Name: name})
		}
	}
	for _, a := range r.alerts {
		if !a.Received.Before(r.started) {
			mark(a.Received, "signal: "+a.State)
		}
	}
	mark(r.empty, "pool empty")
	mark(r.back, "worker back")
	mark(r.full, "pool full")
	return marks
}

// alertTable shows the signals of the dead man's switch.
func (r *record) alertTable() report.Table {
	t := report.Table{Title: "Signals of the dead man's switch", Columns: []string{"signal", "received", "keys in the pool then"}}
	for _, a := range r.alerts {
		if !a.Received.Before(r.started) {
			t.Rows = append(t.Rows, []string{a.State, fmt.Sprintf("%.1f s", r.at(a.Received)), fmt.Sprint(keysAt(r.seen, a.Received))})
		}
	}
	return t
}

// scaledTable shows how long pools of other sizes last, by the formula that the run tests: keys
// divided by the rate.
func (r *record) scaledTable() report.Table {
	t := report.Table{
		Title:   "How long a pool lasts without its worker",
		Columns: []string{"keys in the pool", fmt.Sprintf("at the measured %.0f/s", r.predicted.slope), "at 1,000/s", "then left below 20 %", "below 10 %"},
	}
	for _, keys := range []float64{float64(r.capacity), 1e6, 5e6, 100e6} {
		measured := "unknown"
		if r.predicted.slope > 0 {
			measured = lasting(keys / r.predicted.slope)
		}
		t.Rows = append(t.Rows, []string{
			report.Number(keys), measured, lasting(keys / usualRate), lasting(0.2 * keys / usualRate), lasting(0.1 * keys / usualRate),
		})
	}
	return t
}

func lasting(seconds float64) string {
	return report.Duration(time.Duration(seconds * float64(time.Second)))
}

// refillNotes explain the charts.
func (r *record) refillNotes() []string {
	var notes []string
	if !r.empty.IsZero() {
		notes = append(notes, "The service measures the rate of taking over the last 15 s. For that long after the load began, it reports too long a runway.")
	}
	if r.full.IsZero() {
		return notes
	}
	note := fmt.Sprintf("The pool was full %.2f s after the worker's start, while links were created", r.full.Sub(r.back).Seconds())
	if rate, known := fillRate(through(since(r.seen, r.back), r.full)); known {
		note += fmt.Sprintf(", at %s keys/s from its first keys on", report.Number(rate))
	}
	return append(notes, note+". So small a pool is full before the worker has reached its speed. With --full the worker fills 100,000,000 keys.")
}
