package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowsJoinsTablesWithSameColumns(t *testing.T) {
	t.Parallel()
	row := func(name string, columns []string, cells ...string) Experiment {
		e := Experiment{Name: "fault/" + name, Title: "title of " + name, Claims: []Claim{claim(Correctness, Held)}}
		if cells != nil {
			e.Tables = []Table{{Title: "What happened", Columns: columns, Rows: [][]string{append([]string{name}, cells...)}}}
		}
		return e
	}
	links, visits := []string{"row", "lost"}, []string{"row", "visits"}
	r := &Report{Experiments: []Experiment{
		row("visit", visits, "7"), row("walk", links, "0"), row("10b", links, "1"), row("2", links, "2"), row("10", links, "3"), row("start", nil),
		{Name: "bars/rest", Tables: []Table{{Columns: []string{"program"}}}},
	}}
	const result = "1 of 1 claim holds"
	want := []Table{
		{Columns: []string{"row", "lost", "result"}, Rows: [][]string{{"2", "2", result}, {"10", "3", result}, {"10b", "1", result}, {"walk", "0", result}}},
		{Columns: []string{"row", "visits", "result"}, Rows: [][]string{{"visit", "7", result}}},
		{Columns: []string{"row", "fault", "result"}, Rows: [][]string{{"start", "title of start", result}}},
	}
	if diff := cmp.Diff(want, r.Rows()); diff != "" {
		t.Errorf("the tables differ (-want +got):\n%s", diff)
	}
	if got := (&Report{Experiments: []Experiment{{Name: "bars/rest"}}}).Rows(); got != nil {
		t.Errorf("a report without fault rows has the tables %v", got)
	}
}
