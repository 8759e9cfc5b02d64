package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

const (
	poll    = 10 * time.Millisecond
	patient = time.Minute // for what takes seconds at the worst
)

// Record is what a row observes.
type Record struct {
	Strikes  int               // how often the fault was injected
	Links    *loadtest.Verdict // of the check that found most; nil: no link was read back
	Served   *loadtest.Figures // of the creations that the row demands an availability of
	Slowest  time.Duration     // of all creations
	Accounts *lab.Accounts     // of the last audit; nil: there was none
	Unclosed []string          // the audits that did not close the accounts
	Faults   map[string]int    // the keys that did not, by kind
	Unfit    string            // why the environment was not fit to measure a time; "": it was fit
	Notes    []string

	seen map[string]*observation
}

// observation is what a row observed of one claim.
type observation struct {
	n               int
	against         []string // each refutes the claim
	why             string
	figures         bool
	bound, observed float64 // of the worst figure
}

// verdict judges a claim that the row observed itself.
func (r *Record) verdict(claim string) experiment.Verdict {
	o := r.seen[claim]
	if o == nil {
		return experiment.Verdict{}
	}
	why := o.why
	if len(o.against) > 0 {
		why = strings.Join(o.against[:min(3, len(o.against))], "; ")
	}
	if o.n > 1 {
		why = fmt.Sprintf("refuted by %d of %d observations, such as: %s", len(o.against), o.n, why)
	}
	v := experiment.Holds(len(o.against) == 0, "%s", why)
	if o.figures {
		v = v.Figures(o.bound, o.observed)
	}
	return v
}

// run is one run of a row. Its methods belong to the goroutine of the run.
type run struct {
	*experiment.T
	row    *row
	record *Record
}

// strike counts n injections of the fault.
func (r *run) strike(n int) { r.record.Strikes += n }

// struck ends the run unless the fault was injected.
func (r *run) struck(n int, what string) {
	r.strike(n)
	if n == 0 {
		r.Fatalf("no %s: the row proves nothing", what)
	}
}

// note adds a figure that no claim has.
func (r *run) note(format string, args ...any) {
	r.record.Notes = append(r.record.Notes, fmt.Sprintf(format, args...))
}

// saw records one observation of a claim.
func (r *run) saw(claim string, ok bool, format string, args ...any) *observation {
	if !slices.ContainsFunc(r.row.claims, func(c experiment.Claim[Record]) bool { return c.Name == claim }) {
		panic("row " + r.row.name + " does not make the claim " + claim)
	}
	if r.record.seen == nil {
		r.record.seen = make(map[string]*observation)
	}
	o := r.record.seen[claim]
	if o == nil {
		o = &observation{}
		r.record.seen[claim] = o
	}
	o.n++
	o.why = fmt.Sprintf(format, args...)
	if !ok {
		o.against = append(o.against, o.why)
	}
	return o
}

// must records one observation of a claim and ends the run when it refutes the claim.
func (r *run) must(claim string, ok bool, format string, args ...any) {
	if !ok {
		r.Refute(claim, format, args...)
	}
	r.saw(claim, true, format, args...)
}

// figure records an observation that must not be above bound.
func (r *run) figure(claim string, bound, observed float64, format string, args ...any) {
	o := r.saw(claim, observed <= bound, format, args...)
	if !o.figures || observed-bound > o.observed-o.bound {
		o.figures, o.bound, o.observed = true, bound, observed
	}
}

// took records how long something took that must not take longer than limit.
func (r *run) took(claim string, limit, took time.Duration) {
	r.figure(claim, limit.Seconds(), took.Seconds(), "%v, %v allowed", took.Round(time.Millisecond), limit)
}

// becomes waits until ok is true, which the claim promises. When that takes longer than a minute
// the claim is refuted and the run ends.
func (r *run) becomes(claim, what string, ok func() bool) {
	began := time.Now()
	if !lab.Happens(r, patient, ok) {
		r.Refute(claim, "after %v still not: %s", patient, what)
	}
	r.saw(claim, true, "%s after %v", what, time.Since(began).Round(10*time.Millisecond))
}

// stop ends a load and returns its figures.
func (r *run) stop(load *lab.Load) loadtest.Figures {
	f := load.Stop()
	r.record.Slowest = max(r.record.Slowest, f.Latency.Max)
	return f
}

// during creates links for a time and returns what happened.
func (r *run) during(load *lab.Load, rate float64, length time.Duration) loadtest.Figures {
	load.Start(rate)
	lab.Pause(r, length)
	return r.stop(load)
}

// serve ends a load, whose availability a claim is about.
func (r *run) serve(loads ...*lab.Load) {
	var sum loadtest.Figures
	for _, load := range loads {
		f := r.stop(load)
		sum.Sent, sum.Unsent, sum.Acknowledged = sum.Sent+f.Sent, sum.Unsent+f.Unsent, sum.Acknowledged+f.Acknowledged
		sum.Refused, sum.Unknown = sum.Refused+f.Refused, sum.Unknown+f.Unknown
	}
	r.record.Served = &sum
}

// check reads the links of the loads back through a server and searches its links table.
func (r *run) check(through *lab.Program, loads ...*lab.Load) {
	r.checked(lab.Check(r, through, census(through), loads...))
}

// census reads the links table of the database that a server uses.
func census(of *lab.Program) loadtest.Census {
	i := slices.IndexFunc(of.Settings, func(s string) bool { return strings.HasPrefix(s, "DATABASE_URL=") })
	return lab.Census(strings.TrimPrefix(of.Settings[i], "DATABASE_URL="))
}

// checked records what a check found; of several checks the worst counts.
func (r *run) checked(v loadtest.Verdict) {
	if was := r.record.Links; was != nil {
		v.Acknowledged, v.Checked = max(v.Acknowledged, was.Acknowledged), max(v.Checked, was.Checked)
		v.Lost, v.Wrong, v.Twice, v.Unread = max(v.Lost, was.Lost), max(v.Wrong, was.Wrong), max(v.Twice, was.Twice), max(v.Unread, was.Unread)
		v.Reports = append(v.Reports, was.Reports...)
	}
	r.record.Links = &v
}

// audit closes the accounts of the databases that a program uses.
func (r *run) audit(of *lab.Program) lab.Accounts {
	a := lab.Audit(r, of.Settings...)
	if !a.Closes {
		r.record.Unclosed = append(r.record.Unclosed, a.Problem())
		if r.record.Faults == nil {
			r.record.Faults = make(map[string]int)
		}
		for _, f := range a.Faults {
			r.record.Faults[f.Kind]++
		}
	}
	r.record.Accounts = &a
	return a
}

// end checks the links of all loads through every server, after a restart, so that no
// cache answers for the store; then it stops the servers. The accounts are closed while
// the servers run and when they do not. It returns what the last audit says.
func (r *run) end(servers []*lab.Program, loads ...*lab.Load) lab.Accounts {
	r.audit(servers[0])
	for _, s := range servers {
		s.Restart()
		r.check(s, loads...)
	}
	for _, s := range servers {
		s.Stop()
	}
	return r.audit(servers[0])
}
