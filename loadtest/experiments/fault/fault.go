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
// Invariant: a row whose fault did not happen judges no claim.
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

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// row is one fault.
type row struct {
	name     string // as the command line takes it
	title    string // the fault, in a few words
	injected string // how the fault is injected, as a sentence
	change   bool   // the row belongs to the suite change, too
	alone    bool   // the row measures latencies
	// failpoints says that the row sets KEYPOOL_FAILPOINTS.
	failpoints bool
	run        func(*run)
	claims     []claim
	controls   []experiment.Control
}

// Experiments returns the rows.
func Experiments() []*experiment.Experiment {
	var all []*experiment.Experiment
	for _, row := range slices.Concat(serverRows(), workerRows(), walkRows(), redisRows(), replyRows(),
		rollbackRows(), dryRows(), databaseRows(), failoverRows(), diskRows(), startRows()) {
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
		},
		Claims:   w.claims,
		Controls: w.controls,
		Show:     func(record *Record, e *report.Experiment) { w.show(record, e) },
	}
}

// without is a control that builds protections out of the programs.
func without(refutes string, protections ...string) []experiment.Control {
	return []experiment.Control{{Without: protections, Refutes: refutes}}
}

// show adds the row of the table of faults.
func (w *row) show(record *Record, e *report.Experiment) {
	e.Notes = append(e.Notes, record.Notes...)
	e.Tables = append(e.Tables, report.Table{
		Title:   "What happened",
		Columns: []string{"row", "fault", "injected", "acknowledged", "twice", "lost", "wrong", "abandoned", "available", "slowest"},
		Rows:    [][]string{append([]string{w.name, w.title}, record.cells()...)},
	})
}

// cells are the figures of a row in the table of faults.
func (r *Record) cells() []string {
	n := func(v int64) string { return fmt.Sprint(v) }
	cells := []string{fmt.Sprint(r.Strikes), "-", "-", "-", "-", "-", "-", "-"}
	if v := r.Links; v != nil {
		copy(cells[1:], []string{n(v.Acknowledged), n(v.Twice), n(v.Lost), n(v.Wrong)})
		if v.Sent > 0 {
			cells[6] = fmt.Sprintf("%.2f %%", availability(v.Figures))
			cells[7] = fmt.Sprintf("%d ms", r.Slowest.Milliseconds())
		}
	}
	if r.Accounts != nil {
		cells[5] = reasons(r.Accounts.Abandoned)
	}
	return cells
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

// availability is the share of creations that got their link, in percent.
func availability(f loadtest.Figures) float64 {
	return 100 * float64(f.Acknowledged) / float64(max(1, f.Sent+f.Unsent))
}
