// Package fault breaks the programs on purpose, under load, and checks what users notice.
//
// A row is one fault: how it is injected, the claims that must hold in spite of it, and a
// control. A control is the same row against programs that lack the protection; the
// claim that it names must then fail. Strikes count how often the fault was injected.
//
// Every row ends alike. The servers are stopped in order and started again, so that no
// cache answers for the store. Then every acknowledged link is read back through each
// server, the links table is searched for creations that were stored twice, and the
// accounts of the ledger are closed.
//
// Invariant: a row whose fault did not happen judges no claim and fails.
//
// The rows use processes with a PostgreSQL and a Redis of their own, and know them by their
// commands, settings and HTTP interface. The exceptions are the links table, which says
// what became of creations of unknown outcome, the list of a pool, in which a row looks
// for the codes of a space, the ranges of the ledger, and a word of each request whose
// reply a proxy drops.
package fault

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// row is one fault.
type row struct {
	name       string // as the command line takes it
	title      string // the fault, in a few words
	injected   string // how the fault is injected, as a sentence
	change     bool   // the row belongs to the suite change, too
	alone      bool   // the row measures latencies
	failpoints bool   // the row sets KEYPOOL_FAILPOINTS
	run        func(*run)
	claims     []claim
	controls   []experiment.Control
}

// Experiments returns the rows.
func Experiments() []*experiment.Experiment {
	var all []*experiment.Experiment
	for _, row := range slices.Concat(serverRows(), workerRows(), walkRows(), redisRows(), rollbackRows(),
		dryRows(), databaseRows(), failoverRows(), diskRows(), startRows()) {
		all = append(all, experiment.Define(row.definition()))
	}
	return all
}

func (w *row) definition() experiment.Definition[Record] {
	suites := []experiment.Suite{experiment.Nightly}
	if w.change {
		suites = []experiment.Suite{experiment.Change, experiment.Nightly}
	}
	return experiment.Definition[Record]{
		Name: "fault/" + w.name, Title: w.title, Summary: w.injected, Suites: suites, Alone: w.alone, Failpoints: w.failpoints,
		Run: func(t *experiment.T, record *Record) {
			environment := measure.Observe()
			defer func() { record.Unfit = environment.Unfit() }()
			w.run(&run{T: t, row: w, record: record})
			if record.Strikes == 0 {
				t.Fatalf("the fault did not happen: the row proves nothing")
			}
		},
		Claims:   w.claims,
		Controls: w.controls,
		Show:     w.show,
	}
}

// without is a control that builds protections out of the programs.
func without(refutes string, protections ...string) []experiment.Control {
	return []experiment.Control{{Without: protections, Refutes: refutes}}
}

// show adds the row of the table of faults, and what a check found wrong. A row that reads no
// links back has its claims only.
func (w *row) show(record *Record, e *report.Experiment) {
	v := record.Links
	if v == nil {
		return
	}
	e.Notes = append(e.Notes, v.Reports...)
	cells := []string{w.name, w.title}
	for _, n := range []int64{int64(record.Strikes), v.Acknowledged, v.Twice, v.Lost, v.Wrong} {
		cells = append(cells, fmt.Sprint(n))
	}
	lost := "-"
	if n := len(record.Audits); n > 0 {
		lost = reasons(record.Audits[n-1].Abandoned)
	}
	e.Tables = append(e.Tables, report.Table{
		Title:   "What happened",
		Columns: []string{"row", "fault", "injected", "acknowledged", "twice", "lost", "wrong", "abandoned", "available", "slowest"},
		Rows: [][]string{append(cells, lost, fmt.Sprintf("%.2f %%", availability(v.Figures)),
			fmt.Sprintf("%d ms", record.Slowest.Milliseconds()))},
	})
}

// reasons lists the abandoned keys by reason.
func reasons(abandoned map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(abandoned)) {
		parts = append(parts, fmt.Sprintf("%d %s", abandoned[reason], reason))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}
