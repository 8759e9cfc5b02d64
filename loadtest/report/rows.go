package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// rowColumn is the title of the first column of a table that describes one fault row.
const rowColumn = "row"

// Rows returns the results of all fault rows in few tables. Each table joins the tables with the same columns, and adds the
// result of the experiment to each row. The last table contains the fault rows that have no table. Rows returns nil if the
// report has no fault row.
func (r *Report) Rows() []Table {
	var joined []Table
	rest := Table{Columns: []string{rowColumn, "fault", "result"}}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		at := slices.IndexFunc(e.Tables, func(t Table) bool { return len(t.Columns) > 0 && t.Columns[0] == rowColumn })
		if at < 0 {
			if row, ok := strings.CutPrefix(e.Name, "fault/"); ok {
				rest.Rows = append(rest.Rows, []string{row, e.Title, e.Sentence()})
			}
			continue
		}
		t := e.Tables[at]
		columns := append(slices.Clone(t.Columns), "result")
		same := slices.IndexFunc(joined, func(j Table) bool { return slices.Equal(j.Columns, columns) })
		if same < 0 {
			same, joined = len(joined), append(joined, Table{Columns: columns})
		}
		for _, row := range t.Rows {
			joined[same].Rows = append(joined[same].Rows, append(slices.Clone(row), e.Sentence()))
		}
	}
	slices.SortStableFunc(joined, func(a, b Table) int { return cmp.Compare(len(b.Rows), len(a.Rows)) })
	if len(rest.Rows) > 0 {
		joined = append(joined, rest)
	}
	for _, t := range joined {
		slices.SortStableFunc(t.Rows, func(a, b []string) int { return compareRows(a[0], b[0]) })
	}
	return joined
}

// compareRows compares the names of two fault rows: first the numbered rows by their numbers, then the others.
func compareRows(a, b string) int {
	numberOf := func(name string) int {
		end := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(name)
		}
		n, err := strconv.Atoi(name[:end])
		if err != nil {
			return 1 << 30 // the name has no number
		}
		return n
	}
	return cmp.Or(cmp.Compare(numberOf(a), numberOf(b)), cmp.Compare(a, b))
}
