// Package scenario holds the experiments of the harness. Each sets out to test a few
// claims about a running service, makes the load, and returns what it found as a part of
// the report; it never prints.
//
// Invariants:
//
//   - a claim is judged by what a client saw, or by what the operating system, Redis or the
//     database says, and what the service says of itself by these; only what nobody else
//     can see, such as the state of a breaker or the keys in its memory, is taken from /status;
//   - what is predicted comes from settings, formulas, and what was measured of something
//     else or earlier in the same run, never from the figure that it is held against;
//   - a scenario ends within a minute of the end of its context, with what ran until then.
package scenario

import (
	"context"
	"time"

	"keypool/loadtest/report"
)

// Run is what a scenario is given.
type Run struct {
	Programs string // the directory of the built programs
	Full     bool   // unscaled: minutes to hours instead of seconds

	// A deployment that runs already; a scenario that needs its own refuses it.
	Target string // its public URL; "": the scenario starts what it needs
	Admin  string // the URL of one server's admin listener, "" when it cannot be reached
	Climb  bool   // go beyond the steady rate there too, to where the deployment gives out

	// Each is for the scenarios that say so, and 0 the scenario's own.
	Rate     float64       // creations, in mix redirects, per second
	Duration time.Duration // of the steady load

	Live func(Live) // told about each second how far it is; never nil
}

// Live is how far a scenario is.
type Live struct {
	Scenario string         `json:"scenario"`
	Phase    string         `json:"phase"`
	Done     float64        `json:"done"` // 0 to 1, of the scenario
	Rate     float64        `json:"rate"` // requests per second just now
	P99      time.Duration  `json:"p99_ns"`
	PoolKeys *int64         `json:"pool_keys"` // nil: unknown, or none
	Runway   *time.Duration `json:"runway_ns"`
}

// Scenario is one experiment.
type Scenario struct {
	Name  string // as --scenario takes it
	Title string
	// Anywhere says that it can be run against a deployment that it did not start.
	Anywhere bool
	// Rated and Timed say that it heeds Run.Rate and Run.Duration. Below Slowest, a rate, a
	// sound service would fail its claims.
	Rated, Timed bool
	Slowest      float64
	// Run blocks until the experiment is over. An error means that it could not be made;
	// what is in the result all the same goes into the report with it.
	Run func(context.Context, *Run) (report.Scenario, error)
}

// Execute runs the experiment and completes its part of the report, with what went wrong if
// anything did. That a server which it needs is not installed is no fault: then its claims
// are not judged, and neither are those that an early end of ctx left open.
func (s Scenario) Execute(ctx context.Context, run *Run) report.Scenario {
	started := time.Now()
	result, err := s.Run(ctx, run)
	p := Part{result}
	switch {
	case missing(err):
		p.Impossible = absent(err)
		p.judgeNone("not possible on this machine: %s", p.Impossible)
	case err != nil && ctx.Err() == nil:
		p.Error = err.Error()
	case ctx.Err() != nil:
		p.judgeNone("the run was ended before")
	}
	p.Name, p.Title, p.Started, p.Seconds = s.Name, s.Title, started, time.Since(started).Seconds()
	return p.Scenario
}

// All is every scenario in the order of the report.
func All() []Scenario {
	return []Scenario{
		{Name: "create", Title: "A thousand new links a second", Anywhere: true, Rated: true, Timed: true, Run: create},
		{Name: "mix", Title: "A hundred visits to one new link", Anywhere: true, Rated: true, Timed: true, Run: mix},
		{Name: "drain", Title: "A pool runs dry", Rated: true, Slowest: drainSlowest(), Run: drain},
		{Name: "outage", Title: "Redis is killed under twenty servers", Rated: true, Run: outage},
		{Name: "fallback", Title: "What the random fallback costs as the space fills", Run: fallback},
		{Name: "scan", Title: "Guessing codes next to known ones", Run: scan},
	}
}
