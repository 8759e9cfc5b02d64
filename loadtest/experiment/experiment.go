// Package experiment contains the types and the runner that all experiments on the programs share: load
// tests, fault rows, key-source rules, the comparison of key sources, and bars. A bar is an aim of the
// project for speed, memory or growth.
//
// An experiment runs real programs, fills a record with what it observed, and judges its claims by that record
// alone. The only exception is a claim that the run itself refutes ([T.Refute]). A control repeats an experiment
// with programs that are broken on purpose, or with other settings. A control names claims, and these claims must
// fail. So a control shows that the experiment detects such a fault.
//
// Invariants:
//
//   - every experiment declares at least one suite and one claim;
//   - a claim that the run did not reach is "not judged", never "held";
//   - if a run reaches its end without the observation that a claim needs, the experiment ends with an error;
//   - a speed or availability claim that fails while foreign programs or slow writes to the disk keep the machine busy
//     is inconclusive, but a failure that is certain ([Verdict.Certain]) stays a failure;
//   - if a correctness or availability claim fails, or if the run ends with an error, the result is final: no second run
//     can hide it. Otherwise, after an inconclusive claim or a failed speed claim, the experiment runs once more;
//   - a control is caught if all claims that it names fail.
package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"keypool/loadtest/report"
)

// Suite is a set of experiments that run together.
type Suite string

// The suites.
const (
	Change  Suite = "change"  // runs before a change is merged
	Nightly Suite = "nightly" // runs each night
	Full    Suite = "full"    // runs with --full; takes hours
)

// Definition describes an experiment that observes a record of type R.
type Definition[R any] struct {
	Name    string // such as "fault/10"; the part before the slash is the group
	Title   string // a title of a few words
	Summary string // what is done and why it matters, in a few sentences
	Suites  []Suite
	// Alone says that no other experiment runs at the same time, because this experiment measures time. Its
	// controls run before it, in parallel with other controls.
	Alone bool
	// Anywhere says that the experiment can run against a deployment that it did not start.
	Anywhere bool
	// Failpoints says that Run sets KEYPOOL_FAILPOINTS (see docs/glossary.md). The shipped programs have no
	// failpoints, so the runner builds the programs.
	Failpoints bool
	// Run carries out the experiment and fills the record. If Run ends early with [T.Fatalf], the claims are
	// judged by the incomplete record.
	Run      func(t *T, record *R)
	Claims   []Claim[R]
	Controls []Control
	// Show adds charts, tables, settings and notes to the report. If it is nil, the report shows
	// only the claims. Show is also called for an incomplete record.
	Show func(record *R, e *report.Experiment)
}

// Claim is one sentence with its kind, and with the function that decides whether the sentence holds for a
// record.
type Claim[R any] struct {
	Name string // a short name, the same in every run
	Text string // the sentence
	Unit string // unit of the bound and of the observed figure
	Kind report.Kind
	// Judge returns the verdict on a record. If the record lacks the observation that the claim needs, Judge
	// returns the zero Verdict, which means "not judged". After a run that reached its end, a zero Verdict is an
	// error. If the claim does not apply to the run, Judge returns [NotJudged], which is no error.
	Judge func(record *R) Verdict
}

// Failing returns the names of the claims that fail for a record. Tests of claims use it.
func Failing[R any](claims []Claim[R], record *R) (names []string) {
	for _, c := range claims {
		if c.Judge(record).Outcome == report.Failed {
			names = append(names, c.Name)
		}
	}
	return names
}

// When returns a claim like c. Its Judge returns the zero Verdict if ready returns false, because the record then
// lacks the observation that c needs.
func (c Claim[R]) When(ready func(record *R) bool) Claim[R] {
	judge := c.Judge
	c.Judge = func(r *R) (v Verdict) {
		if ready(r) {
			v = judge(r)
		}
		return v
	}
	return c
}

// UnlessSmall returns a claim like c, which must be a claim about a time or a rate. If small returns true, the new claim
// is not judged, because times at a small scale mean nothing.
func (c Claim[R]) UnlessSmall(small func(record *R) bool) Claim[R] {
	judge := c.Judge
	c.Judge = func(r *R) Verdict {
		if small(r) {
			return NotJudged("a run at a small scale does not judge times")
		}
		return judge(r)
	}
	return c
}

// Control says which protections are removed or which settings change, and which claims must then fail.
type Control struct {
	Without  []string // protections that are removed from the programs, by their names in package controls
	Settings []string // "NAME=value"; they override the settings of the experiment
	Refutes  string   // the name of the claim that must fail
	// AlsoRefutes contains the names of further claims that must fail.
	AlsoRefutes []string
}

// refutes returns the names of all claims that must fail.
func (c Control) refutes() []string { return append([]string{c.Refutes}, c.AlsoRefutes...) }

// Name returns the name of the control in reports, such as "without commit" or "with FALLBACK=none". A value with spaces is
// in quotes.
func (c Control) Name() string {
	var parts []string
	if len(c.Without) > 0 {
		parts = append(parts, "without "+strings.Join(c.Without, " and "))
	}
	if len(c.Settings) > 0 {
		settings := make([]string, len(c.Settings))
		for i, s := range c.Settings {
			settings[i] = s
			if name, value, _ := strings.Cut(s, "="); strings.Contains(value, " ") {
				settings[i] = name + "=" + strconv.Quote(value)
			}
		}
		parts = append(parts, "with "+strings.Join(settings, " and "))
	}
	return strings.Join(parts, "; ")
}

// Experiment is a [Definition] without its record type.
type Experiment struct {
	Name, Title, Summary string
	Suites               []Suite
	Alone, Anywhere      bool
	Failpoints           bool
	Controls             []Control
	Claims               []report.Claim // the claims before the run, which are not judged yet

	run func(t *T) report.Experiment
}

// Define returns the experiment that d defines. It panics if d is invalid, so a test that lists all experiments
// detects an invalid definition.
func Define[R any](d Definition[R]) *Experiment {
	e := &Experiment{
		Name: d.Name, Title: d.Title, Summary: d.Summary, Suites: d.Suites,
		Alone: d.Alone, Anywhere: d.Anywhere, Failpoints: d.Failpoints, Controls: d.Controls,
	}
	for _, c := range d.Claims {
		e.Claims = append(e.Claims, report.Claim{
			Name: c.Name, Text: c.Text, Kind: c.Kind, Unit: c.Unit, Outcome: report.NotJudged, Why: "the run ended before this claim could be judged",
		})
	}
	e.run = func(t *T) report.Experiment {
		record := new(R)
		var disturbed disturbance
		ended := t.do(func() {
			end := t.observe()
			// The observation ends before the clean-up, which kills programs. After a kill, the processor time of the
			// children of a program may be unknown.
			defer func() { disturbed = end() }()
			d.Run(t, record)
		})
		result, certain := e.part(ended), make([]bool, len(d.Claims))
		var unobserved []string
		for i, c := range d.Claims {
			v := c.Judge(record)
			v.enter(&result.Claims[i])
			certain[i] = v.certain
			if v.Outcome == "" {
				unobserved = append(unobserved, fmt.Sprintf("%q", c.Name))
			}
		}
		if ended == nil && t.refuted == "" && len(unobserved) > 0 {
			result.Error = "the run observed nothing for these claims: " + strings.Join(unobserved, ", ")
		}
		t.refute(result.Claims)
		if t.sound && t.Target == "" { // the processor time of a deployment counts as foreign, so it would excuse every claim that depends on time
			excuse(result.Claims, certain, disturbed)
		}
		if d.Show != nil {
			d.Show(record, &result)
		}
		return result
	}
	if err := e.check(); err != nil {
		panic(err)
	}
	return e
}

// check returns an error if e is invalid.
func (e *Experiment) check() error {
	var names []string
	for _, c := range e.Claims {
		if c.Name == "" || c.Text == "" || c.Kind == "" || slices.Contains(names, c.Name) {
			return fmt.Errorf("experiment %s: claim %q lacks a name, a text or a kind, or exists twice", e.Name, c.Name)
		}
		names = append(names, c.Name)
	}
	if len(e.Suites) == 0 || len(e.Claims) == 0 {
		return fmt.Errorf("experiment %s declares no suite or makes no claim", e.Name)
	}
	for _, c := range e.Controls {
		for _, name := range c.refutes() {
			if !slices.Contains(names, name) {
				return fmt.Errorf("experiment %s: the control %s refutes %q, which is not one of its claims", e.Name, c.Name(), name)
			}
		}
	}
	return nil
}

// part returns a report of e in which no claim is judged. If the run did not reach its end, ended says why.
// Otherwise ended is nil.
func (e *Experiment) part(ended error) report.Experiment {
	p := report.Experiment{Name: e.Name, Title: e.Title, Summary: e.Summary, Claims: slices.Clone(e.Claims)}
	if ended != nil {
		p.Error = ended.Error()
	}
	return p
}
