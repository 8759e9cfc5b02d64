package load

import (
	"fmt"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const createRate = 1000.0 // creations per second that the project promises

// create is the experiment load/create.
func create() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "load/create", Title: "New links at a steady rate",
		Summary: fmt.Sprintf("Links are created at a steady rate (%.0f per second at scale 1, unless the flag --rate sets another rate). "+
			"Each creation is sent at its due time, even if earlier creations are not finished. "+
			"Then the rate rises until the service no longer keeps up. At the end, every acknowledged link is read back after a restart of the service. `loadtest run` omits the restart.", createRate),
		Suites: []experiment.Suite{experiment.Change, experiment.Nightly}, Alone: true, Anywhere: true,
		Run: runCreate, Claims: createClaims(createRate), Controls: measure.LinkControls(),
		Show: func(r *record, e *report.Experiment) { r.show(e, "creations", createClaims(r.rate)) },
	})
}

// createClaims returns the claims of load/create at the given rate.
func createClaims(rate float64) []claim {
	return append([]claim{
		timed("steady rate sustained", "/s", fmt.Sprintf("At a steady %.0f creations per second, every creation is acknowledged, and the p99 of the creations is at most 1 s, so no queue of creations grows.", rate), judgeRate),
		timed("creation p99", "ms", measure.LatencyText("creations", "a single-row INSERT plus the p99 of a redirect without a look-up", rate), judgeP99),
	}, accounts()...)
}

func runCreate(t *experiment.T, r *record) {
	s := start(t, r, plan{rate: createRate, lasts: 7500 * time.Millisecond, each: time.Second})
	defer s.readBack()
	err := s.measureSteady("creations", s.load.Run, s.baselines...)
	r.served = r.steady.All()
	t.Must(err)
	s.climb(s.load.Run)
}

// judgeRate judges the claim about the steady rate. Its bound for the p99 is 1 s and not kneeLatency.
func judgeRate(r *record) experiment.Verdict {
	if r.steady == nil || r.steady.Total.Sent+r.steady.Total.Unsent == 0 {
		return experiment.Verdict{}
	}
	f, seconds := r.steady.Total, r.steady.Seconds
	v := experiment.Holds(f.Failed() == 0 && f.Latency.P99 <= time.Second,
		"%d of %d creations were acknowledged in %.1f s; %d were refused, %d have an unknown outcome, and %d were not sent; the latency was %v",
		f.Acknowledged, f.Sent+f.Unsent, seconds, f.Refused, f.Unknown, f.Unsent, f.Latency)
	return r.steady.Complete(v.Figures(r.rate, float64(f.Acknowledged)/max(seconds, 0.001)))
}
