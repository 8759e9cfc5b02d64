// Package fault breaks the programs on purpose while links are created, and checks what users notice.
//
// Vocabulary: a fault row, in this package also called a row, is an experiment that injects one fault.
// It states how the fault is injected and which claims must hold nevertheless. A control runs a
// row again with programs that lack a protection, or with other settings. A control names one or more
// claims, and these claims must fail. A strike is one injection of the fault. A worker delivers a range
// when it has pushed all keys of the range to the pool and records this in the ledger.
//
// Most rows that create links under load end with the same checks, in run.end. The row restarts the
// servers, so that no answer comes from a cache. It reads every acknowledged link back through each
// server, and searches the links table for creations that were stored twice. Finally, an audit checks
// that each number that the ledger reserved is in exactly one place. Rows 17, 17b, 17c and 17d read back
// only the links that were created after the fault.
//
// Invariant: if the fault did not happen, the row fails and judges no claim.
//
// Each row starts its own programs and databases. It controls and observes the programs through their
// commands, settings and HTTP interface. Some rows also depend on internals of the programs:
//
//   - the links table shows whether a creation of unknown outcome was stored;
//   - one fault row reads all keys of the pool in Redis, and checks that each code of a space is either a key or the
//     code of a link;
//   - some fault rows read the ranges, the holders and the epochs in the ledger, and the number of keys in Redis;
//   - one fault row changes the values of the pool in Redis;
//   - a proxy that drops replies recognises the requests by a word that they contain.
package fault

import (
	"fmt"
	"slices"
	"strings"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"
)

// row defines a fault row. A fault row that names no suite belongs to the suite nightly. The
// summary of a fault row describes how the fault is injected.
type row = experiment.Definition[Record]

// Experiments returns the fault rows as experiments.
func Experiments() []*experiment.Experiment {
	var all []*experiment.Experiment
	rows := slices.Concat(
		serverRows(), workerRows(), walkRows(), redisRows(), clusterRows(), rollbackRows(), dryRows(), databaseRows(), failoverRows(),
		diskRows(), startRows(), editRows(), repeatRows(), revokeRows(), visitRows(), replicaRows(), citusRows(), poolerRows(), crowdRows(),
		outputRows(), movedRows(), hostileRows(), malformedRows(), floodRows(), partitionRows(), sharedRows(),
	)
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

// changeToo returns the suites of a fault row that belongs to the suite change as well as to nightly.
func changeToo() []experiment.Suite {
	return []experiment.Suite{experiment.Change, experiment.Nightly}
}

// inject returns the function Run of a fault row that injects the given fault. The row fails if the fault
// did not happen.
func inject(fault func(*run)) func(*experiment.T, *Record) {
	return func(t *experiment.T, record *Record) {
		fault(&run{T: t, record: record})
		if record.Strikes == 0 {
			t.Fatalf("the fault did not happen, so the fault row proves nothing")
		}
	}
}

// without returns a control whose programs lack the given protections. The parameter refutes is the name of
// the claim that must fail.
func without(refutes string, protections ...string) []experiment.Control {
	return []experiment.Control{{Without: protections, Refutes: refutes}}
}

// show adds the results of the row to the report: a table of visits if the row counted visits, and a table of
// creations if the row read links back. It panics if the record has an observation of a claim that the row does
// not make. The claims keysOnce and keysKept are exempt, because every audit observes them.
func show(record *Record, e *report.Experiment) {
	for name := range record.seen {
		ofEveryAudit := name == keysOnce || name == keysKept
		if !ofEveryAudit && !slices.ContainsFunc(e.Claims, func(c report.Claim) bool { return c.Name == name }) {
			panic("row " + e.Name + " has no claim " + name)
		}
	}
	if record.Visits.answered > 0 {
		e.Tables = append(e.Tables, record.Visits.table(e.Name, e.Title, record.Strikes))
	}
	if record.Created.Sent == 0 {
		return
	}
	_, number, _ := strings.Cut(e.Name, "/")
	cells := []string{number, e.Title, fmt.Sprint(record.Strikes), fmt.Sprint(record.Created.Acknowledged)}
	for _, claim := range []string{once, kept, right} {
		cells = append(cells, fmt.Sprint(record.seen[claim].against))
	}
	slowest := "not recorded"
	if record.Slowest > 0 {
		slowest = fmt.Sprintf("%d ms", record.Slowest.Milliseconds())
	}
	e.Tables = append(e.Tables, report.Table{
		Title: "What happened",
		Columns: []string{
			"row", "fault", "injections", "acknowledged", "links with the same code or stored twice", "lost links", "wrong links", "abandoned keys",
			"creations that succeeded", "slowest creation",
		},
		Rows: [][]string{append(cells, reasons(record.Abandoned), fmt.Sprintf("%.2f %%", availability(record.Created)), slowest)},
	})
}
