// Package report is what a run of the harness leaves behind: the figures as JSON for
// programs, and one self-contained page with charts for people.
//
// Invariant: the page says nothing that is not in the JSON, so that a page can be made
// again from it. What each member of the JSON means is in schema.json.
//
// Vocabulary: a claim is one sentence that a scenario set out to test; its verdict is
// held, failed or not judged (with the reason). What was predicted comes from formulas,
// settings, and what else the run has measured; what was observed is what it is held against.
//
// A figure that is NaN or infinite is one that was not observed: it is left out of the
// JSON and of the page, and the rest of the report is written all the same.
package report

import (
	"slices"
	"time"
)

// Schema is the version of the JSON; it changes when a member changes its meaning.
const Schema = 1

// Report is one run of the harness.
type Report struct {
	Schema      int               `json:"schema"`
	Title       string            `json:"title,omitempty"` // of the page; "" for a load test
	Lead        string            `json:"lead,omitempty"`  // what it is about, in a few sentences; likewise
	Words       []Word            `json:"words,omitempty"` // likewise
	Started     time.Time         `json:"started"`
	Seconds     float64           `json:"seconds"`
	Full        bool              `json:"full"`        // the unscaled run
	Interrupted bool              `json:"interrupted"` // it was ended early; what ran is here
	Command     string            `json:"command"`
	Commit      string            `json:"commit"`
	Machine     Machine           `json:"machine"`
	Settings    map[string]string `json:"settings,omitempty"`
	Scenarios   []Scenario        `json:"scenarios"`
}

// Word is one that the page explains.
type Word struct {
	Word string `json:"word"`
	Says string `json:"says"`
}

// Machine is what the run was made on.
type Machine struct {
	OS      string `json:"os"` // such as "Debian GNU/Linux 12, Linux 6.1.0"
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	MemGiB  int    `json:"mem_gib"`
	Go      string `json:"go"`
	Servers string `json:"servers"` // versions of PostgreSQL and Redis, if any
}

// Scenario is one experiment.
type Scenario struct {
	Name     string            `json:"name"` // as --scenario takes it
	Title    string            `json:"title"`
	Summary  string            `json:"summary"` // what was done and why it matters, in a few sentences
	Started  time.Time         `json:"started"`
	Seconds  float64           `json:"seconds"`
	Settings map[string]string `json:"settings,omitempty"`
	Claims   []Claim           `json:"claims"`
	Charts   []Chart           `json:"charts,omitempty"`
	Tables   []Table           `json:"tables,omitempty"`
	Notes    []string          `json:"notes,omitempty"` // how to read it, what it does not show
	Error    string            `json:"error,omitempty"` // why it could not run to its end; then it has not held
	// Impossible is what this machine has not got that it needs: then it did not run.
	Impossible string `json:"impossible,omitempty"`
}

// Verdict is what became of a claim.
type Verdict string

// The verdicts.
const (
	Held      Verdict = "held"
	Failed    Verdict = "failed"
	NotJudged Verdict = "not judged"
)

// Claim is one sentence that the scenario tests.
type Claim struct {
	Name      string   `json:"name"` // the same in every run, so that runs can be compared
	Text      string   `json:"text"` // the sentence: "No acknowledged link was lost."
	Verdict   Verdict  `json:"verdict"`
	Why       string   `json:"why"`                 // the figures behind the verdict, in words
	Predicted *float64 `json:"predicted,omitempty"` // or the bound
	Observed  *float64 `json:"observed,omitempty"`
	Unit      string   `json:"unit,omitempty"` // of both: "s", "ms", "keys", "attempts", ...
}

// Chart is drawn with time or another quantity to the right.
type Chart struct {
	Title  string   `json:"title"` // says what is to be seen
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
	Marks  []Mark   `json:"marks,omitempty"`  // moments: the worker stopped, a page went out
	Levels []Mark   `json:"levels,omitempty"` // values of Y: 20 %, 10 %
}

// Axis is one of the two of a chart.
type Axis struct {
	Label string `json:"label"`
	Unit  string `json:"unit"`
	Log   bool   `json:"log,omitempty"`
	// Names stand at the axis instead of numbers: 0 closed, 1 half-open, 2 open.
	Names []Mark `json:"names,omitempty"`
}

// Series is one line of a chart.
type Series struct {
	Name      string       `json:"name"`
	Predicted bool         `json:"predicted,omitempty"` // from a formula: drawn broken
	Points    bool         `json:"points,omitempty"`    // drawn as points, not as a line
	Steps     bool         `json:"steps,omitempty"`     // drawn as steps: a state, not a quantity
	XY        [][2]float64 `json:"xy"`
}

// Mark is a moment or a level with its name.
type Mark struct {
	At   float64 `json:"at"`
	Name string  `json:"name"`
}

// Table is for what a chart would hide.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Tally counts claims by their verdict.
type Tally struct{ Held, Failed, NotJudged int }

// All is how many claims there are.
func (t Tally) All() int { return t.Held + t.Failed + t.NotJudged }

// Tally counts the claims of the scenario.
func (s *Scenario) Tally() Tally {
	var t Tally
	for _, c := range s.Claims {
		switch c.Verdict {
		case Held:
			t.Held++
		case NotJudged:
			t.NotJudged++
		default: // nobody holds what has no verdict
			t.Failed++
		}
	}
	return t
}

// Tally counts the claims of all scenarios.
func (r *Report) Tally() Tally {
	var sum Tally
	for i := range r.Scenarios {
		t := r.Scenarios[i].Tally()
		sum.Held += t.Held
		sum.Failed += t.Failed
		sum.NotJudged += t.NotJudged
	}
	return sum
}

// Right says that the run came to its end, and each scenario too; that no claim failed; and
// that in each scenario one held at least, but for those that are impossible on the machine or
// claim nothing, and not in all of these.
func (r *Report) Right() bool {
	bad := slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return s.Error != "" || s.unjudged() })
	t := r.Tally()
	return !r.Interrupted && !bad && t.Failed == 0 && t.Held > 0
}

// unjudged says that nothing was judged of a scenario that was possible.
func (s *Scenario) unjudged() bool {
	t := s.Tally()
	return len(s.Claims) > 0 && t.Held+t.Failed == 0 && s.Impossible == ""
}
