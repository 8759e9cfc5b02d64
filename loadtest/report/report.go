// Package report writes the results of a run of experiments in four formats: JSON for programs,
// a self-contained page with charts for people, a summary for a terminal, and Markdown tables for
// a document.
//
// Invariant: everything on the page is also in the JSON, so the page can be made again from the JSON.
// schema.json describes each member of the JSON.
//
// Vocabulary: an outcome is the result of a claim. A verdict is the result of an experiment or of the
// run. There are three kinds of findings: a claim that does not hold or was not judged, a control that
// was not caught, and an experiment that did not run to its end.
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
	Full        bool         `json:"full"`        // the experiments ran at full size
	Strict      bool         `json:"strict"`      // a speed claim that fails makes the run fail
	Interrupted bool         `json:"interrupted"` // the run ended early; the report contains what ran until then
	Command     string       `json:"command"`
	Commit      string       `json:"commit"`
	Machine     Machine      `json:"machine"`
	Experiments []Experiment `json:"experiments"`
}

// Machine describes the machine of the run.
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
	Name     string            `json:"name"` // the name on the command line, such as "fault/10"
	Title    string            `json:"title"`
	Summary  string            `json:"summary"` // what was done and why it matters, in a few sentences
	Started  time.Time         `json:"started"`
	Seconds  float64           `json:"seconds"` // without the controls
	Settings map[string]string `json:"settings,omitempty"`
	Claims   []Claim           `json:"claims"`
	Controls []Control         `json:"controls,omitempty"`
	Charts   []Chart           `json:"charts,omitempty"`
	Tables   []Table           `json:"tables,omitempty"`
	Notes    []string          `json:"notes,omitempty"` // how to read the experiment, and what it does not show
	Error    string            `json:"error,omitempty"` // why the experiment did not run to its end
}

// Outcome is the result of a claim.
type Outcome string

// The outcomes.
const (
	Held         Outcome = "held"
	Failed       Outcome = "failed"
	Inconclusive Outcome = "inconclusive" // the environment was not fit to judge a claim that depends on time
	NotJudged    Outcome = "not judged"   // the run ended before it reached this claim, or the claim does not apply to the run
)

// Kind decides what the failure of a claim means for the run.
type Kind string

// The kinds.
const (
	// If a correctness claim fails, the run fails.
	Correctness Kind = "correctness"
	// An availability claim is about the share of requests that are served. If it fails, the run fails. If other
	// programs or slow writes to the disk keep the machine busy, it can be inconclusive instead: a service that lacks
	// processor time or waits for the disk refuses requests.
	Availability Kind = "availability"
	// A speed claim that fails makes a strict run fail. In any other run, the report shows the failure,
	// and the run can pass. On a busy machine, a speed claim is inconclusive instead of failing.
	Speed Kind = "speed"
	// A bar claim is an aim of the project. The report shows whether the aim is reached. A bar that is
	// missed never makes the run fail.
	Bar Kind = "bar"
)

// Claim is one sentence that an experiment tests.
type Claim struct {
	Name      string   `json:"name"` // the same in every run, so that runs can be compared
	Text      string   `json:"text"` // the sentence: "No acknowledged link is lost."
	Kind      Kind     `json:"kind"`
	Outcome   Outcome  `json:"outcome"`
	Why       string   `json:"why"`                 // the figures behind the outcome, in words
	Predicted *float64 `json:"predicted,omitempty"` // the prediction or the bound
	Observed  *float64 `json:"observed,omitempty"`
	Unit      string   `json:"unit,omitempty"` // unit of both figures, such as "s", "ms" or "keys"
}

// Control is the result of a second run of an experiment, with programs that are broken on purpose or with other
// settings. The claims in Refutes must then fail.
type Control struct {
	Name    string `json:"name"`    // what is broken or set
	Refutes string `json:"refutes"` // names of the claims that must fail, separated by commas
	Caught  bool   `json:"caught"`  // all claims in Refutes failed
	Why     string `json:"why"`     // the result of each claim in Refutes, and what else was found
}

// Chart shows series over time or another quantity.
type Chart struct {
	Title  string   `json:"title"` // what the chart shows
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
	Marks  []Mark   `json:"marks,omitempty"`  // moments, such as the stop of a worker
	Levels []Mark   `json:"levels,omitempty"` // thresholds, such as 20 % of a full pool
}

// Axis is one of the two axes of a chart.
type Axis struct {
	Label string `json:"label"`
	Unit  string `json:"unit"`
	Log   bool   `json:"log,omitzero"`
}

// Series is one line of a chart.
type Series struct {
	Name      string       `json:"name"`
	Predicted bool         `json:"predicted,omitzero"` // the values come from a formula; drawn as a dashed line
	Points    bool         `json:"points,omitzero"`    // drawn as points, not as a line
	XY        [][2]float64 `json:"xy"`
}

// Mark is a moment or a level with its name.
type Mark struct {
	At   float64 `json:"at"` // value on the axis, in the unit of the axis
	Name string  `json:"name"`
}

// Table contains figures that a chart does not show exactly.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}
