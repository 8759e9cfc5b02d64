package bars

import (
	"slices"
	"testing"

	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// Each ratio is computed from one round. In this test the machine is half as fast in the second round.
func TestJudgeComputesOneRatioPerRound(t *testing.T) {
	t.Parallel()
	bare := measure.Series{100, 50, 100}
	tests := []struct {
		name   string
		bar    bar
		figure figure
		want   report.Outcome
	}{
		{"ratio at the aim", bar{versus: "bare", least: 0.7}, figure{measure.Series{70, 35, 70}, bare}, report.Held},
		{"ratio below the aim", bar{versus: "bare", least: 0.7}, figure{measure.Series{69, 34, 99}, bare}, report.Failed},
		{"ratio above the aim", bar{versus: "few", most: 1.3}, figure{measure.Series{131, 66, 131}, bare}, report.Failed},
		{"figure at the aim", bar{most: 10}, figure{measured: measure.Series{10, 9, 300}}, report.Held},
		{"figure above the aim", bar{most: 10}, figure{measured: measure.Series{10, 11, 11}}, report.Failed},
		{"no figure", bar{most: 10}, figure{}, ""},
		{"no baseline", bar{versus: "bare", most: 10}, figure{measured: measure.Series{1}}, ""},
		{"a baseline of zero", bar{versus: "bare", most: 10}, figure{measure.Series{0}, measure.Series{0}}, report.Failed},
	}
	for _, tt := range tests {
		if got := tt.bar.judge(tt.figure).Outcome; got != tt.want {
			t.Errorf("%s: outcome %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestBarRowShowsAim(t *testing.T) {
	t.Parallel()
	b := bar{name: "redirects", text: "Fast.", unit: measure.PerSecond, versus: "bare Echo", least: 0.9}
	f := figure{measure.Series{80e3, 90e3}, measure.Series{100e3, 100e3}}
	if got, want := b.row(f), []string{"redirects", "85k/s", "100k/s bare Echo", "0.85 (0.80 to 0.90)", "≥ 0.90"}; !slices.Equal(got, want) {
		t.Errorf("the row of the bar is %q, want %q", got, want)
	}
	b.least = 0
	if got := b.row(f); got[4] != "yardstick" {
		t.Errorf("the row of a figure without an aim is %q, want yardstick", got)
	}
}

func TestParseBenchmarkRequiresNameAndUnits(t *testing.T) {
	t.Parallel()
	const out = "goos: linux\nBenchmarkSourceNextTimed  \t 100\t 51.2 ns/op\t 60.00 p99-ns\nBenchmarkSourceNext  \t 300\t 26.0 ns/op\t 38000000 keys/s\nPASS\n"
	got, err := parseBenchmark(out, "BenchmarkSourceNext", "keys/s")
	if err != nil || got["keys/s"] != 38e6 || got["ns/op"] != 26 {
		t.Errorf("parseBenchmark returns %v and error %v", got, err)
	}
	for _, missing := range [][]string{{"BenchmarkSourceNext", "p99-ns"}, {"BenchmarkSource", "keys/s"}} {
		if got, err := parseBenchmark(out, missing[0], missing[1]); err == nil {
			t.Errorf("%v: parseBenchmark returns %v and no error", missing, got)
		}
	}
}
