// Package report is what a run of experiments leaves behind: figures as JSON for programs,
// one self-contained page with charts for people, a summary for a terminal and tables for a
// document.
//
// Invariant: the page shows nothing that the JSON does not hold, so a page can be made
// again from its JSON. schema.json describes each member.
//
// Vocabulary: the outcome is what became of a claim, the verdict what became of an experiment
// or of the run. A finding is anything that did not go as it should: a claim that does not hold,
// a control that was not caught, an experiment that did not run to its end.
//
// A figure that is NaN or infinite was not observed. The JSON and the page omit it.
package report

import "time"

// Schema is the version of the JSON. It changes when a member changes its meaning.
const Schema = 2

// Report is one run of the harness.
type Report struct {
	Schema      int          `json:"schema"`
	Started     time.Time    `json:"started"`
	Seconds     float64      `json:"seconds"`
	Full        bool         `json:"full"`        // not scaled down
	Strict      bool         `json:"strict"`      // speed claims that fail make the run fail
	Interrupted bool         `json:"interrupted"` // ended early; the report holds what ran
	Command     string       `json:"command"`
	Commit      string       `json:"commit"`
	Machine     Machine      `json:"machine"`
	Experiments []Experiment `json:"experiments"`
}

// Machine is what the run was made on.
type Machine struct {
	OS      string `json:"os"` // such as "Debian GNU/Linux 12, Linux 6.1.0"
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	MemGiB  int    `json:"mem_gib"`
	Go      string `json:"go"`
	Servers string `json:"servers"` // versions of PostgreSQL and Redis
}

// Experiment is one experiment of a run.
type Experiment struct {
	Name     string            `json:"name"` // as the command line takes it, such as "fault/10"
	Title    string            `json:"title"`
	Summary  string            `json:"summary"` // what was done and why it matters, in a few sentences
	Started  time.Time         `json:"started"`
	Seconds  float64           `json:"seconds"`
	Settings map[string]string `json:"settings,omitempty"`
	Claims   []Claim           `json:"claims"`
	Controls []Control         `json:"controls,omitempty"`
	Charts   []Chart           `json:"charts,omitempty"`
	Tables   []Table           `json:"tables,omitempty"`
	Notes    []string          `json:"notes,omitempty"` // how to read it, what it does not show
	Error    string            `json:"error,omitempty"` // why the experiment did not run to its end
}

// Outcome is the verdict on a claim.
type Outcome string

// The outcomes.
const (
	Held         Outcome = "held"
	Failed       Outcome = "failed"
	Inconclusive Outcome = "inconclusive" // the environment was not fit to judge what depends on time
	NotJudged    Outcome = "not judged"   // the run did not get as far as this claim
)

// Kind says how a claim is enforced.
type Kind string

// The kinds.
const (
	// Correctness claims fail the run, always.
	Correctness Kind = "correctness"
	// Availability claims are on the share of requests that are served. A failure fails the run, and
	// the claim is inconclusive on a machine that other programs keep busy: a service that gets no
	// processor refuses requests.
	Availability Kind = "availability"
	// Speed claims fail the run in the suite nightly. The suite change only shows them.
	Speed Kind = "speed"
	// Bar claims are aims of the project. A run shows whether they hold and never fails for one.
	Bar Kind = "bar"
)

// Claim is one sentence that an experiment tests.
type Claim struct {
	Name      string   `json:"name"` // the same in every run, so that runs can be compared
	Text      string   `json:"text"` // the sentence: "No acknowledged link is lost."
	Kind      Kind     `json:"kind"`
	Outcome   Outcome  `json:"outcome"`
	Why       string   `json:"why"`                 // the figures behind the outcome, in words
	Predicted *float64 `json:"predicted,omitempty"` // or the bound
	Observed  *float64 `json:"observed,omitempty"`
	Unit      string   `json:"unit,omitempty"` // of both: "s", "ms", "keys", "attempts", ...
}

// Control is the same experiment against a program that is broken on purpose. It must
// refute the claim that it names.
type Control struct {
	Name    string `json:"name"`    // of what is broken
	Refutes string `json:"refutes"` // the claim that must fail
	Caught  bool   `json:"caught"`
	Why     string `json:"why"` // what refuted the claim, or what was found instead
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
	Log   bool   `json:"log,omitzero"`
	// Names stand at the axis instead of numbers: 0 closed, 1 half-open, 2 open.
	Names []Mark `json:"names,omitempty"`
}

// Series is one line of a chart.
type Series struct {
	Name      string       `json:"name"`
	Predicted bool         `json:"predicted,omitzero"` // from a formula: drawn broken
	Points    bool         `json:"points,omitzero"`    // drawn as points, not as a line
	Steps     bool         `json:"steps,omitzero"`     // drawn as steps: a state, not a quantity
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
