package fault

import (
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// Record is what a row observes.
type Record struct {
	Strikes int               // how often the fault was injected
	Links   *loadtest.Verdict // of all checks; nil: no link was read back
	Served  *loadtest.Figures // of the creations that the row demands an availability of
	Slowest time.Duration     // of all creations
	Audits  []lab.Accounts
	Unfit   string // why the environment was not fit to measure a time; "": it was fit

	seen map[string]observation // by claim
}

// observation is that observation of a claim which speaks most against it, the last of such.
type observation struct {
	experiment.Verdict
	against float64
}

// strike counts n injections of the fault.
func (r *run) strike(n int) { r.record.Strikes += n }

// observe records one observation of a claim.
func (r *run) observe(claim string, against float64, v experiment.Verdict) {
	if !slices.ContainsFunc(r.row.claims, func(c experiment.Claim[Record]) bool { return c.Name == claim }) {
		panic("row " + r.row.name + " does not make the claim " + claim)
	}
	if r.record.seen == nil {
		r.record.seen = make(map[string]observation)
	}
	if was, known := r.record.seen[claim]; !known || against >= was.against {
		r.record.seen[claim] = observation{v, against}
	}
}

// saw records that the claim is right or wrong.
func (r *run) saw(claim string, ok bool, format string, args ...any) {
	against := 0.0
	if !ok {
		against = 1
	}
	r.observe(claim, against, experiment.Holds(ok, format, args...))
}

// must is saw, and ends the run when the claim is wrong.
func (r *run) must(claim string, ok bool, format string, args ...any) {
	if !ok {
		r.Refute(claim, format, args...)
	}
	r.saw(claim, true, format, args...)
}

// figure records a figure that must not be above bound.
func (r *run) figure(claim string, bound, observed float64, format string, args ...any) {
	r.observe(claim, observed-bound, experiment.AtMost(bound, observed, format, args...))
}

// took records how long something took that must not take longer than limit.
func (r *run) took(claim string, limit, took time.Duration) {
	r.figure(claim, limit.Seconds(), took.Seconds(), "%v, %v allowed", took.Round(time.Millisecond), limit)
}

// becomes waits until ok is true, which the claim promises. When that takes longer than a minute
// the claim is refuted and the run ends.
func (r *run) becomes(claim, what string, ok func() bool) {
	began := time.Now()
	done := lab.Happens(r, patient, ok)
	r.must(claim, done, "%s: %t after %v", what, done, time.Since(began).Round(10*time.Millisecond))
}

// sawAbandoned records that only the keys of killed servers are abandoned, of which there are crashed.
func (r *run) sawAbandoned(a lab.Accounts, crashed int64) {
	r.saw(abandoned, a.Lost() == crashed && a.Abandoned["crash"] == crashed, "abandoned: %s; killed servers had %d keys", reasons(a.Abandoned), crashed)
}
