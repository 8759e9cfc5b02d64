package bars

import (
	"slices"
	"testing"

	"keypool/loadtest/report"
)

// The sum excludes Redis, and each ratio is computed from one round.
func TestCostTableComputesRatioFromSumsOfSameRound(t *testing.T) {
	t.Parallel()
	plain := &deployment{name: plainPostgres, costs: []cost{{server: 60, coordinator: 40, redis: 5}, {server: 120, coordinator: 80, redis: 5}}}
	cluster := &deployment{name: "Citus", costs: []cost{{server: 70, coordinator: 7, workers: 63, redis: 9}, {server: 140, coordinator: 28, workers: 112, redis: 9}}}
	got := costTable([]*deployment{plain, cluster}).Rows[1]
	want := []string{"Citus", "105 (70 to 140)", "17.5 (7 to 28)", "87.5 (63 to 112)", "210 (140 to 280)", "1.40 (1.40 to 1.40)", "9 (9 to 9)"}
	if !slices.Equal(got, want) {
		t.Errorf("the row of the table is %q, want %q", got, want)
	}
	if got, want := cluster.coordinatorShare(), []float64{5, 10}; !slices.Equal(got, want) {
		t.Errorf("the shares of the coordinator are %v, want %v", got, want)
	}
}

// Only the bars of two nodes have an aim.
func TestOnlyCitusBarsWithTwoNodesHaveAims(t *testing.T) {
	t.Parallel()
	for _, s := range spreads {
		for _, b := range s.bars() {
			if judged := b.text != "" && b.most > 0; judged != (s.nodes == 2) {
				t.Errorf("the bar %q of %d nodes has an aim: %t", b.name, s.nodes, judged)
			}
		}
	}
	var r record
	r.put("cost", []float64{151, 149, 152}, []float64{100, 100, 100})
	cost := spreads[1].bars()[0]
	if got := cost.judge(r.figures["cost"]).Outcome; got != report.Failed {
		t.Errorf("the outcome for a cost of 1.51 times that of plain PostgreSQL is %s, want %s", got, report.Failed)
	}
}

// The count of the processor time begins again at 0 when a process starts again, so the cost is unknown.
func TestCostDifferenceFailsIfProcessWasRestarted(t *testing.T) {
	t.Parallel()
	before := cost{server: 10, coordinator: 20, workers: 30, redis: 40}
	used, err := cost{server: 30, coordinator: 60, workers: 30, redis: 50}.since(before)
	if err != nil || used.per(10) != (cost{server: 2, coordinator: 4, redis: 1}) {
		t.Errorf("the cost of one of 10 creations is %+v, and the error is %v", used.per(10), err)
	}
	if used, err := (cost{server: 30, coordinator: 60, workers: 29, redis: 50}).since(before); err == nil {
		t.Errorf("since returns the cost %+v after a worker has started again, want an error", used)
	}
}
