package bench

import (
	"strings"
	"testing"

	"keypool/loadtest/rounds"
)

// Ratios are of one round each: the machine was half as fast in the second.
func TestVerdict(t *testing.T) {
	t.Parallel()
	bare := rounds.Series{100, 50, 100}
	tests := []struct {
		name string
		bar  Bar
		want Verdict
	}{
		{"ratio at the aim", Bar{Versus: "bare", Measured: rounds.Series{70, 35, 70}, Baseline: bare, Aim: AtLeast(0.7)}, Holds},
		{"ratio below", Bar{Versus: "bare", Measured: rounds.Series{69, 34, 99}, Baseline: bare, Aim: AtLeast(0.7)}, Misses},
		{"ratio above", Bar{Versus: "few", Measured: rounds.Series{131, 66, 131}, Baseline: bare, Aim: AtMost(1.3)}, Misses},
		{"figure at the aim", Bar{Measured: rounds.Series{10, 9, 300}, Aim: AtMost(10)}, Holds},
		{"figure above", Bar{Measured: rounds.Series{10, 11, 11}, Aim: AtMost(10)}, Misses},
		{"figure below", Bar{Measured: rounds.Series{10}, Aim: AtLeast(11)}, Misses},
		{"no figure", Bar{Aim: AtMost(10)}, Misses},
		{"no figure to compare with", Bar{Versus: "bare", Measured: rounds.Series{1}, Aim: AtMost(10)}, Misses},
		{"baseline of nothing", Bar{Versus: "bare", Measured: rounds.Series{0}, Baseline: rounds.Series{0}, Aim: AtMost(10)}, Misses},
		{"no aim", Bar{Measured: rounds.Series{10}}, Yardstick},
	}
	for _, tt := range tests {
		if got := tt.bar.Verdict(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	bars := []Bar{
		{What: "redirects", Unit: rounds.PerSecond, Measured: rounds.Series{80e3, 90e3}, Versus: "bare echo", Baseline: rounds.Series{100e3, 100e3}, Aim: AtLeast(0.9)},
		{What: "memory", Unit: "MiB", Measured: rounds.Series{26}, Aim: AtMost(40), Note: "at rest, for a while"},
		{What: "redirects, nginx", Unit: rounds.PerSecond, Measured: rounds.Series{130e3}, Versus: "bare echo", Baseline: rounds.Series{100e3}},
	}
	var text, markdown strings.Builder
	if err := WriteText(&text, bars); err != nil {
		t.Fatal(err)
	}
	heading := Heading{Date: "2026-11-21", Machine: "2 cores", Commit: "abc1234", Command: "make bench", Rounds: 2}
	if err := WriteMarkdown(&markdown, heading, bars); err != nil {
		t.Fatal(err)
	}
	wants := map[*strings.Builder][]string{
		&text: {"85k/s", "100k/s bare echo", "0.85 (0.80 to 0.90)", "≥ 0.90", "does not hold", "26 MiB", "yardstick", "memory: at rest", "1 of 2 bars hold"},
		&markdown: {
			"## Every bar, 2026-11-21, `make bench`", "2 cores; commit abc1234; 2 rounds",
			"| redirects | 85k/s | 100k/s bare echo | 0.85 (0.80 to 0.90) | ≥ 0.90 | does not hold |",
			"| redirects, nginx | 130k/s | 100k/s bare echo | 1.30 |  | yardstick |", "- memory: at rest, for a while", "1 of 2 bars hold.",
		},
	}
	for got, parts := range wants {
		for _, part := range parts {
			if !strings.Contains(got.String(), part) {
				t.Errorf("there is no %q in\n%s", part, got)
			}
		}
	}
}
