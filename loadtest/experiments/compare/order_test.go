package compare

import (
	"testing"

	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The claim compares how many bytes of the write-ahead log an insert needs in each of two tables. If
// a table is missing, the claim is not judged.
func TestLinkOrderClaimComparesBytesOfWriteAheadLog(t *testing.T) {
	t.Parallel()
	tables := func(code, rank measure.Series) *orderRecord {
		return &orderRecord{tables: []*ordered{{name: "by code", log: code}, {name: "by rank", log: rank}}}
	}
	for name, tt := range map[string]struct {
		record *orderRecord
		want   report.Outcome
	}{
		"half of the log bytes":                 {tables(measure.Series{500}, measure.Series{250}), report.Held},
		"equal log bytes":                       {tables(measure.Series{500}, measure.Series{500}), report.Failed},
		"one table is missing":                  {tables(measure.Series{500}, nil), ""},
		"an empty record":                       {&orderRecord{}, ""},
		"more log bytes in one of three rounds": {tables(measure.Series{500, 500, 500}, measure.Series{250, 250, 600}), report.Held},
	} {
		if got := judgeOrder(tt.record); got.Outcome != tt.want {
			t.Errorf("%s: %q, want %q", name, got.Outcome, tt.want)
		}
		var e report.Experiment
		showOrder(tt.record, &e)
		if len(e.Tables) != 1 || len(e.Tables[0].Rows) != len(tt.record.tables) {
			t.Errorf("%s: the report has the tables %v", name, e.Tables)
		}
	}
}
