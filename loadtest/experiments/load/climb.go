package load

import (
	"fmt"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	stepFactor = 1.6 // ratio of the rates of two successive steps
	maxSteps   = 8
	// kneeLatency is the greatest p99 of a service that keeps up. It is much longer than the time of a single
	// request. If the service does not keep up with a step, requests at the end of the step wait much longer than
	// kneeLatency.
	kneeLatency = 100 * time.Millisecond
)

// step is a load at one rate.
type step struct {
	offered float64 // requests per second
	seconds float64 // time from the start of the step until the last request had its outcome
	loadtest.Figures
}

// achieved returns the number of requests per second that got the right answer.
func (s *step) achieved() float64 { return float64(s.Acknowledged) / max(s.seconds, 0.001) }

// keptUp reports whether the service kept up with the step.
func (s *step) keptUp() bool { return s.Failed() == 0 && s.Latency.P99 <= kneeLatency }

// climb raises the rate step by step. It stops when the service no longer keeps up, or when it has tried
// s.plan.climb higher rates. The steady load is the first step. If the service does not keep up with the steady
// load, or if it is a deployment, climb tries no higher rate. If the service does not keep up with a higher step,
// climb repeats this step once, because another process may have kept the machine busy. The second try then counts.
func (s *run) climb(load measure.Load) {
	first := s.steady.Total
	if first.Sent == 0 {
		return
	}
	s.steps = []step{{s.rate, s.steady.Seconds, first}}
	if s.Target != "" || !s.steps[0].keptUp() {
		return
	}
	for rate := s.rate * stepFactor; len(s.steps) <= s.plan.climb; rate *= stepFactor {
		s.Phase(0.6, "raising the rate to %.0f per second", rate)
		next := s.step(rate, load)
		if !next.keptUp() && s.Context().Err() == nil {
			next = s.step(rate, load)
		}
		if s.Context().Err() != nil { // the step was interrupted
			return
		}
		if s.steps = append(s.steps, next); !next.keptUp() {
			return
		}
	}
}

// step loads the service at the given rate for the duration s.each.
func (s *run) step(rate float64, load measure.Load) step {
	r, started := loadtest.NewRecorder(), time.Now()
	load(s.Context(), rate, s.each, r)
	return step{rate, time.Since(started).Seconds(), r.Figures()}
}

// knee returns the last step with which the service kept up, or nil if there is no such step.
func knee(steps []step) *step {
	for i := range slices.Backward(steps) {
		if steps[i].keptUp() {
			return &steps[i]
		}
	}
	return nil
}

// kneeNote returns a note that states the rate of the knee.
func kneeNote(steps []step) string {
	switch k := knee(steps); k {
	case nil:
		return fmt.Sprintf("The service did not keep up with the first rate: requests failed or the p99 was above %v.", kneeLatency)
	case &steps[len(steps)-1]:
		return fmt.Sprintf("The knee is the highest rate with which the service keeps up. The knee was not reached: the service kept up with %s per second, and no higher rate was tried.", report.Number(k.offered))
	default:
		return fmt.Sprintf("The knee is at %s per second, the highest rate with which the service kept up. "+
			"In the next step, requests failed or the p99 was above %v.", report.Number(k.offered), kneeLatency)
	}
}

// stepChart returns a chart of the latency over the offered rate.
func stepChart(what string, steps []step) report.Chart {
	c := report.Chart{
		Title: "Latency of " + what + " as their rate rises",
		X:     report.Axis{Label: "offered rate", Unit: "/s"}, Y: report.Axis{Label: "latency", Unit: "ms", Log: true},
		Series: []report.Series{{Name: "p50"}, {Name: "p99"}, {Name: "p99.9"}},
		Levels: []report.Mark{{At: float64(measure.LatencyBound.Milliseconds()), Name: measure.LatencyBound.String()}},
	}
	for _, s := range steps {
		for i, d := range []time.Duration{s.Latency.P50, s.Latency.P99, s.Latency.P999} {
			c.Series[i].XY = append(c.Series[i].XY, [2]float64{s.offered, 1000 * d.Seconds()})
		}
	}
	if k := knee(steps); k != nil && k != &steps[len(steps)-1] { // the knee was reached
		c.Marks = []report.Mark{{At: k.offered, Name: "knee"}}
	}
	return c
}

// stepTable returns a table with the figures of every step.
func stepTable(what string, steps []step) report.Table {
	t := report.Table{Title: "The rates of " + what, Columns: []string{"offered rate", "achieved rate", "p50", "p99", "p99.9", "slowest request", "requests failed or not sent", "service kept up"}}
	for i := range steps {
		s := &steps[i]
		keptUp := map[bool]string{true: "yes", false: "no"}[s.keptUp()]
		t.Rows = append(t.Rows, []string{
			report.Quantity(s.offered, "/s"), report.Quantity(s.achieved(), "/s"), report.Duration(s.Latency.P50), report.Duration(s.Latency.P99),
			report.Duration(s.Latency.P999), report.Duration(s.Latency.Max), report.Number(float64(s.Failed())), keptUp,
		})
	}
	return t
}
