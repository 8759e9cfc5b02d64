package scenario

import (
	"fmt"
	"time"

	"keypool/loadtest/report"
)

// chartPoints is how many points of a line are kept: more cannot be seen.
const chartPoints = 400

// at is a moment as the charts have it, in seconds since the worker was stopped.
func (r *drainRecord) at(t time.Time) float64 { return t.Sub(r.started).Seconds() }

// draw enters what is to be seen; beats are the seconds of the run.
func (d *drainage) draw(beats []sampled[beat]) {
	r := &d.record
	if r.started.IsZero() {
		return
	}
	x, marks := report.Axis{Label: "time since the worker was stopped", Unit: "s"}, d.marks()
	d.Charts = append(d.Charts, []report.Chart{
		{
			Title: "The pool, foretold and observed", X: x, Y: report.Axis{Label: "keys in Redis", Unit: "keys"}, Marks: marks,
			Series: []report.Series{thinned(d.observed(), chartPoints), d.foretoldLine()},
			Levels: []report.Mark{{At: 0.2 * float64(d.capacity), Name: "20 %: restart"}, {At: 0.1 * float64(d.capacity), Name: "10 %: page"}},
		},
		{
			Title: "What it cost those who made links meanwhile", X: x, Y: report.Axis{Label: "p99 of each second", Unit: "ms"}, Marks: marks,
			Series: []report.Series{d.inTime(series("p99", r.started, beats, func(b beat) (float64, bool) {
				return milliseconds(b.Load.Latency.P99), b.Load.Sent > 0
			}))},
		},
	}...)
	if !r.empty.IsZero() {
		d.Charts = append(d.Charts, report.Chart{
			Title: "The runway, as the service told it and as it was", X: x, Y: report.Axis{Label: "the pool lasts", Unit: "s"}, Marks: marks,
			Series: []report.Series{
				d.inTime(series("told by the service", r.started, beats, func(b beat) (float64, bool) { return number(b.Status.RunwaySeconds) })),
				{Name: "as it was", XY: [][2]float64{{0, r.at(r.empty)}, {r.at(r.empty), 0}}},
			},
		})
		d.Notes = append(d.Notes, "The service measures the rate at which keys are taken over the last 15 s: for so long after the load began it "+
			"takes the pool to last longer than it does.")
	}
	d.Tables = append(d.Tables, d.signalTable(), d.scaledTable())
	d.tellRefill()
}

// observed is what Redis said while the experiment was on.
func (d *drainage) observed() report.Series {
	s := report.Series{Name: "observed"}
	for _, seen := range since(d.record.seen, d.record.started) {
		s.XY = append(s.XY, [2]float64{d.record.at(seen.at), float64(seen.keys)})
	}
	return s
}

func (d *drainage) foretoldLine() report.Series {
	r := &d.record
	s := report.Series{Name: "foretold from the first tenth", Predicted: true}
	if r.foretold.slope > 0 {
		s.XY = [][2]float64{{r.at(r.foretold.zero), r.foretold.keys}, {r.at(r.foretold.empty()), 0}}
	}
	return s
}

// inTime leaves out what was before the worker was stopped.
func (d *drainage) inTime(s report.Series) report.Series {
	kept := s.XY[:0]
	for _, xy := range s.XY {
		if xy[0] >= 0 {
			kept = append(kept, xy)
		}
	}
	s.XY = kept
	return s
}

// marks are the moments that happened.
func (d *drainage) marks() []report.Mark {
	r := &d.record
	marks := []report.Mark{{At: 0, Name: "worker stopped"}}
	mark := func(t time.Time, name string) {
		if !t.IsZero() {
			marks = append(marks, report.Mark{At: r.at(t), Name: name})
		}
	}
	for _, s := range r.signals {
		if !s.at.Before(r.started) {
			mark(s.at, "told: "+s.State)
		}
	}
	mark(r.empty, "pool empty")
	mark(r.back, "worker back")
	mark(r.full, "pool full")
	return marks
}

// signalTable says which signal came when.
func (d *drainage) signalTable() report.Table {
	r := &d.record
	t := report.Table{Title: "What the dead man's switch said", Columns: []string{"signal", "heard", "keys in the pool then"}}
	for _, s := range r.signals {
		if !s.at.Before(r.started) {
			t.Rows = append(t.Rows, []string{s.State, fmt.Sprintf("%.1f s", r.at(s.at)), fmt.Sprint(keysAt(r.seen, s.at))})
		}
	}
	return t
}

// scaledTable says how long pools of other sizes last, by the formula that the small one
// just confirmed or did not: keys divided by the rate.
func (d *drainage) scaledTable() report.Table {
	t := report.Table{
		Title:   "Scaled: for how long a pool lasts without its worker",
		Columns: []string{"keys in the pool", fmt.Sprintf("at the measured %.0f/s", d.record.foretold.slope), "at 1,000/s", "then left below 20 %", "below 10 %"},
	}
	for _, keys := range []float64{float64(d.capacity), 1e6, 5e6, 100e6} {
		measured := "unknown"
		if d.record.foretold.slope > 0 {
			measured = span(keys / d.record.foretold.slope)
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprintf("%.0f", keys), measured, span(keys / promisedRate), span(0.2 * keys / promisedRate), span(0.1 * keys / promisedRate),
		})
	}
	return t
}

// span writes seconds in the unit that people would use.
func span(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 2*60*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

// tellRefill says how fast the keys came back.
func (d *drainage) tellRefill() {
	r := &d.record
	if r.full.IsZero() {
		return
	}
	note := fmt.Sprintf("The pool was full %.2f s after the worker's start, while links were made", r.full.Sub(r.back).Seconds())
	if rate, known := filling(through(since(r.seen, r.back), r.full)); known {
		note += fmt.Sprintf(", at %.0f keys/s from its first keys on", rate)
	}
	d.Notes = append(d.Notes, note+". A pool so small is filled before the worker is at full speed; the unscaled run fills 100 million keys, "+
		"which at 1.5 million keys/s take 67 s.")
}
