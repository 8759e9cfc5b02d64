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
	"cmp"
	"fmt"
	"slices"
	"strings"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"
)

// row is one fault. It belongs to the suite nightly unless it names others. Its summary says how
// the fault is injected.
type row = experiment.Definition[Record]

// Experiments returns the rows.
func Experiments() []*experiment.Experiment {
	var all []*experiment.Experiment
	rows := slices.Concat(serverRows(), workerRows(), walkRows(), redisRows(), rollbackRows(),
		dryRows(), databaseRows(), failoverRows(), diskRows(), startRows())
	for i := range rows {
		row := rows[i]
		if row.Suites == nil {
			row.Suites = []experiment.Suite{experiment.Nightly}
		}
		row.Show = show
		all = append(all, experiment.Define(row))
	}
	return all
}

// changeToo are the suites of a row that belongs to the suite change, too.
func changeToo() []experiment.Suite {
	return []experiment.Suite{experiment.Change, experiment.Nightly}
}

// inject makes the Run of a row.
func inject(fault func(*run)) func(*experiment.T, *Record) {
	return func(t *experiment.T, record *Record) {
		fault(&run{T: t, record: record})
		if record.Strikes == 0 {
			t.Fatalf("the fault did not happen: the row proves nothing")
		}
	}
}

// without is a control that builds protections out of the programs.
func without(refutes string, protections ...string) []experiment.Control {
	return []experiment.Control{{Without: protections, Refutes: refutes}}
}

// show adds the row of the table of faults. A row that reads no links back has its claims only.
func show(record *Record, e *report.Experiment) {
	for name := range record.seen {
		ofEveryAudit := name == keysOnce || name == keysKept
		if !ofEveryAudit && !slices.ContainsFunc(e.Claims, func(c report.Claim) bool { return c.Name == name }) {
			panic(e.Name + " does not make the claim " + name)
		}
	}
	if record.Created.Sent == 0 {
		return
	}
	cells := []string{strings.TrimPrefix(e.Name, "fault/"), e.Title, fmt.Sprint(record.Strikes), fmt.Sprint(record.Created.Acknowledged)}
	for _, claim := range []string{once, kept, right} {
		cells = append(cells, fmt.Sprint(record.seen[claim].against))
	}
	e.Tables = append(e.Tables, report.Table{
		Title:   "What happened",
		Columns: []string{"row", "fault", "injected", "acknowledged", "twice", "lost", "wrong", "abandoned", "available", "slowest"},
		Rows: [][]string{append(cells, reasons(record.Abandoned),
			fmt.Sprintf("%.2f %%", availability(record.Created)), fmt.Sprintf("%d ms", record.Slowest.Milliseconds()))},
	})
}

// reasons lists the abandoned keys by reason.
func reasons(abandoned map[string]int64) string {
	return cmp.Or(strings.Trim(strings.TrimPrefix(fmt.Sprint(abandoned), "map"), "[]"), "0")
}
