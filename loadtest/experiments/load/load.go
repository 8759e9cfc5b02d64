// Package load creates links on one service at a steady rate and then at rising rates. The
// experiment load/create only creates links. The experiment load/mix also requests a hundred redirects
// for each creation. Both experiments read every link back, and both can run against an existing
// deployment.
//
// Vocabulary: a step is a load at one rate. The service keeps up with a step if no request fails
// and the p99 is at most [kneeLatency]. The knee is the last step with which the service keeps up.
//
// Invariants:
//
//   - requests are due at a constant rate, even if earlier requests are not finished;
//   - above the steady rate, a request may fail, but no acknowledged link may be lost;
//   - a deployment is not restarted, and its password does not appear in the report.
package load

import (
	"cmp"
	"net/url"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// Experiments returns the experiments of the package.
func Experiments() []*experiment.Experiment { return []*experiment.Experiment{create(), mix()} }

// claim is a claim about a run of either experiment.
type claim = experiment.Claim[record]

// plan is the size of a run.
type plan struct {
	rate  float64       // requests per second of the steady load
	lasts time.Duration // duration of the steady load in all rounds together
	each  time.Duration // duration of a step
	climb int           // greatest number of steps above the steady rate
	small bool          // the run is too short to judge times
}

// choose returns the plan of a run. The plan is small if the scale is below 1.
func choose(t *experiment.T, usual plan) plan {
	if t.Scale < 1 {
		// The scale of every control is below 1, and a control can lose many links. A request for a lost link is a
		// miss, and the service limits misses. Therefore the load is short.
		return plan{rate: 200, lasts: 1500 * time.Millisecond, each: 300 * time.Millisecond, climb: 2, small: true}
	}
	p := usual
	if t.Full {
		p.lasts, p.each = time.Minute, 10*time.Second
	}
	p.climb, p.rate, p.lasts = maxSteps, cmp.Or(t.Rate, p.rate), cmp.Or(t.Duration, p.lasts)
	p.each = min(p.each, p.lasts)
	return p
}

// record holds what a run observes.
type record struct {
	plan
	settings map[string]string
	steady   *measure.Latencies // nil if there was no steady load
	steps    []step             // the first step is the steady load
	served   loadtest.Figures   // figures of the creations at rates that the service must keep up with
	links    *loadtest.Verdict  // nil if no link was read back
	notes    []string

	atSteady, visited loadtest.Findings // redirects at the steady rate, and redirects at all rates
}

// run is one run of an experiment.
type run struct {
	*experiment.T
	*record
	server    *lab.Program
	census    loadtest.Census    // nil if the run did not start the database
	baselines []measure.Baseline // operations to which the latency of a creation is compared; none for a deployment
	load      *lab.Load
}

// start starts the service, or connects to a deployment if the run has a target.
func start(t *experiment.T, r *record, usual plan) *run {
	r.plan = choose(t, usual)
	s := &run{T: t, record: r}
	t.Phase(0, "starting")
	if t.Target != "" {
		s.server = lab.Deployment(t, t.Target)
		r.settings = map[string]string{"target": redacted(t.Target), "rates above the steady rate": "not tried"}
	} else {
		postgres := lab.Postgres(t)
		s.server = lab.Server(t, "DATABASE_URL="+postgres.URL, "REDIS_URL="+lab.Redis(t).URL)
		s.server.Start()
		s.census, s.baselines = lab.Census(postgres.URL), []measure.Baseline{measure.LoneInsert(t, postgres.URL), measure.BareRedirect(t)}
		r.settings = map[string]string{"store": "PostgreSQL, synchronous_commit=on", "keys": "redis-pool"}
	}
	s.load = lab.Traffic(t, s.server)
	return s
}

// measureSteady measures the steady load and the baselines in turn.
func (s *run) measureSteady(what string, load measure.Load, baselines ...measure.Baseline) (err error) {
	s.Phase(0.2, "%.0f %s per second", s.rate, what)
	s.steady, err = measure.Latency(s.Context(), measure.Steady{Rate: s.rate, Lasts: s.lasts, Load: load, Baselines: baselines})
	return err
}

// readBack reads every link back, even if the run ended early.
func (s *run) readBack() {
	s.Phase(0.9, "reading every link back")
	s.links, s.notes = measure.ReadBack(s, s.server, s.census, s.load)
}

// timed returns a claim about a time or a rate. A small run does not judge it.
func timed(name, unit, text string, judge func(*record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: unit, Kind: report.Speed, Judge: judge}.UnlessSmall(func(r *record) bool { return r.small })
}

// accounts returns the claims about creations and links.
func accounts() []claim {
	served := measure.Served("No creation fails at the steady rate.", func(r *record) loadtest.Figures { return r.served })
	return append([]claim{served}, measure.Links(func(r *record) *loadtest.Verdict { return r.links })...)
}

// judgeP99 judges the p99 at the steady rate.
func judgeP99(r *record) experiment.Verdict { return r.steady.Verdict() }

// show adds the settings, chart, table and notes of a run to its report. The claims of the report
// name the usual rate, but this run may use another rate. Therefore show replaces their texts by the
// texts of the parameter claims.
func (r *record) show(e *report.Experiment, what string, claims []claim) {
	e.Settings = r.settings
	_, deployed := r.settings["target"]
	for i, c := range claims {
		if deployed && c.Name == measure.NoCodeTwice {
			c.Text = "No code is acknowledged twice." // it is unknown what the database of a deployment stores
		}
		e.Claims[i].Text = c.Text
	}
	if len(r.steps) > 0 {
		e.Charts = []report.Chart{stepChart(what, r.steps)}
		e.Tables = []report.Table{stepTable(what, r.steps)}
		e.Notes = append(e.Notes, kneeNote(r.steps),
			"If the load generator runs on the same machine as the service, the load generator may be the limit above the knee.")
	}
	e.Notes = append(e.Notes, r.notes...)
}

// redacted returns a URL without its password.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "not a URL"
	}
	return u.Redacted()
}
