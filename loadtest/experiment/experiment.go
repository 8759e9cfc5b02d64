// Package experiment is the frame for every proof about the programs: load tests, fault
// rows, key-source rules, the comparison of key sources, and the bars of speed.
//
// An experiment runs real programs, fills a record with what it observed, and judges its
// claims by that record alone. A control is the same experiment against a program that is
// broken on purpose; it must refute the claim that it names.
//
// Invariants:
//
//   - every experiment declares at least one suite and one claim;
//   - a claim that the run did not get as far as is "not judged", never "held";
//   - a correctness claim is judged once;
//   - when other programs keep the machine busy, a claim on speed or availability that does not hold
//     is inconclusive and never held, and the experiment runs once more;
//   - a control counts as caught only when the claim that it names fails.
package experiment

import (
	"fmt"
	"slices"

	"keypool/loadtest/report"
)

// Suite is a set of experiments that run together.
type Suite string

// The suites.
const (
	Change  Suite = "change"  // before a change lands
	Nightly Suite = "nightly" // everything that runs in an hour
	Full    Suite = "full"    // unscaled: hours
)

// Definition describes an experiment that observes a record of type R.
type Definition[R any] struct {
	Name    string // "outage", "fault/10"; the part before the slash is the group
	Title   string // a few words
	Summary string // what is done and why it matters, in a few sentences
	Suites  []Suite
	// Alone says that the experiment measures time: nothing else runs beside it.
	Alone bool
	// Anywhere says that the experiment can run against a deployment that it did not start.
	Anywhere bool
	// Failpoints says that Run sets KEYPOOL_FAILPOINTS: the programs are built with crash points.
	Failpoints bool
	// Run does the experiment and fills the record as it goes. It ends early by [T.Fatalf]; the
	// claims are judged by what the record holds then.
	Run      func(t *T, record *R)
	Claims   []Claim[R]
	Controls []Control
	// Show adds charts, tables, settings and notes to the report. Nil shows the claims only. It is called
	// also for a record that an early end left incomplete.
	Show func(record *R, e *report.Experiment)
}

// Claim is one sentence, how it is enforced, and how a record is judged by it.
type Claim[R any] struct {
	Name string // short, the same in every run
	Text string // the sentence
	Unit string // of the bound and of what is observed
	Kind report.Kind
	// Judge returns the verdict on a record. A record may be incomplete: for a part that is
	// missing Judge returns the zero Verdict, which stands for "not judged".
	Judge func(record *R) Verdict
}

// Control says how the programs are broken and which claim then fails.
type Control struct {
	Without  []string // names of package controls: protections that are built out of the programs
	Settings []string // "NAME=value", replacing those of the experiment
	Refutes  string   // the name of the claim
	// AlsoRefutes names further claims that must fail.
	AlsoRefutes []string
}

// refutes names all claims that must fail.
func (c Control) refutes() []string { return append([]string{c.Refutes}, c.AlsoRefutes...) }

// Name names the control in reports.
func (c Control) Name() string {
	return fmt.Sprint("without ", append(slices.Clone(c.Without), c.Settings...))
}

// Experiment is a [Definition] of any record.
type Experiment struct {
	Name, Title, Summary string
	Suites               []Suite
	Alone, Anywhere      bool
	Failpoints           bool
	Controls             []Control
	Claims               []report.Claim // not judged yet

	run func(t *T) report.Experiment
}

// Define makes an experiment of d. It panics when d breaks a rule of the frame, which a
// test that lists all experiments finds.
func Define[R any](d Definition[R]) *Experiment {
	e := &Experiment{
		Name: d.Name, Title: d.Title, Summary: d.Summary, Suites: d.Suites,
		Alone: d.Alone, Anywhere: d.Anywhere, Failpoints: d.Failpoints, Controls: d.Controls,
	}
	for _, c := range d.Claims {
		e.Claims = append(e.Claims, report.Claim{
			Name: c.Name, Text: c.Text, Kind: c.Kind, Unit: c.Unit, Outcome: report.NotJudged, Why: "the run did not get as far",
		})
	}
	e.run = func(t *T) report.Experiment {
		record := new(R)
		foreign := t.observe()
		ended := t.do(func() { d.Run(t, record) })
		share := foreign()
		result := e.part(ended)
		for i, c := range d.Claims {
			c.Judge(record).enter(&result.Claims[i])
		}
		t.refute(result.Claims)
		if t.sound && t.Target == "" { // the time of a deployment counts as foreign
			excuse(result.Claims, share)
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

// check returns a rule of the frame that e breaks.
func (e *Experiment) check() error {
	var names []string
	for _, c := range e.Claims {
		if c.Name == "" || c.Text == "" || c.Kind == "" || slices.Contains(names, c.Name) {
			return fmt.Errorf("experiment %s: claim %q lacks a text or a kind, or exists twice", e.Name, c.Name)
		}
		names = append(names, c.Name)
	}
	if len(e.Suites) == 0 || len(e.Claims) == 0 {
		return fmt.Errorf("experiment %s declares no suite or makes no claim", e.Name)
	}
	for _, c := range e.Controls {
		for _, name := range c.refutes() {
			if !slices.Contains(names, name) {
				return fmt.Errorf("experiment %s: the control %s refutes %q, which is not a claim of it", e.Name, c.Name(), name)
			}
		}
	}
	return nil
}

// part is the report of e before its claims are judged.
func (e *Experiment) part(ended error) report.Experiment {
	p := report.Experiment{Name: e.Name, Title: e.Title, Summary: e.Summary, Claims: slices.Clone(e.Claims)}
	if ended != nil {
		p.Error = ended.Error()
	}
	return p
}
