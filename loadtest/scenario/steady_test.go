package scenario

import (
	"testing"

	"keypool/loadtest/report"

	"github.com/prometheus/procfs"
)

func TestLatencyIsJudged(t *testing.T) {
	t.Parallel()
	two := []*beside{{name: "one thing"}, {name: "another"}}
	tests := []struct {
		name string
		s    steady
		want report.Verdict
	}{
		{"fast", steady{beside: two, p99s: []float64{9, 9, 9}, least: [][]float64{{1}, {1}}}, report.Held},
		{"slow", steady{beside: two, p99s: []float64{11, 11, 11}, least: [][]float64{{1}, {1}}}, report.Failed},
		{"slow for a moment", steady{beside: two, p99s: []float64{9, 500, 9}, least: [][]float64{{1}, {1}}}, report.Held},
		{"as slow as the machine", steady{beside: two, p99s: []float64{60}, least: [][]float64{{20}, {20}}}, report.Held},
		{"slower than the machine", steady{beside: two, p99s: []float64{61}, least: [][]float64{{20}, {20}}}, report.Failed},
		{"beside a hog", steady{beside: two, p99s: []float64{61}, least: [][]float64{{20}, {20}}, others: 0.5}, report.NotJudged},
		{"fast beside a hog", steady{beside: two, p99s: []float64{9}, least: [][]float64{{1}, {1}}, others: 0.5}, report.Held},
		{"beside nothing", steady{p99s: []float64{9}}, report.NotJudged},
	}
	for i := range tests {
		tests[i].s.rounds = steadyRounds
	}
	for _, tt := range tests {
		var p Part
		p.claimLatency("c", "creations", "two things", 1000)
		p.judgeLatency("c", &tt.s)
		if got := p.Claims[0]; got.Verdict != tt.want {
			t.Errorf("%s: %s because %q, want %s", tt.name, got.Verdict, got.Why, tt.want)
		}
	}
}

// A load that was cut short has kept no rate and no latency, but it may have broken them.
func TestRoundsThatDidNotRun(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int][]report.Verdict{
		0:            {report.NotJudged, report.NotJudged, report.Failed},
		1:            {report.NotJudged, report.NotJudged, report.Failed},
		steadyRounds: {report.Held, report.Held, report.Failed},
	} {
		s := steady{rounds: rounds, p99s: []float64{1}, least: [][]float64{{1}}, beside: []*beside{{name: "one thing"}}}
		var p Part
		p.claimLatency("p99", "creations", "one thing", 1000)
		p.Claim("sound", "None failed.", "")
		p.Claim("broken", "None failed.", "")
		p.judgeLatency("p99", &s)
		p.None("sound", 0, "none failed")
		p.None("broken", 1, "one failed")
		p.unfinished("sound", &s)
		p.unfinished("broken", &s)
		for i, c := range p.Claims {
			if c.Verdict != want[i] {
				t.Errorf("after %d rounds %q is %s because %q, want %s", rounds, c.Name, c.Verdict, c.Why, want[i])
			}
		}
	}
}

// What this process does is not what others do.
func TestOthers(t *testing.T) {
	t.Parallel()
	before := processors{all: 100, busy: 50, ours: 20}
	if got := (processors{all: 200, busy: 110, ours: 50}).others(before); got != 0.3 {
		t.Errorf("others took %v, want 0.3", got)
	}
	p, err := readProcessors(t.Context())
	if err != nil || p.ours < 0 || p.busy < p.ours || p.all < p.busy {
		t.Errorf("%+v, error %v", p, err)
	}
}

// What a child took stays ours when it has ended.
func TestFamily(t *testing.T) {
	t.Parallel()
	const init, us, child, grandchild, other = 1, 10, 11, 12, 20
	running := []procfs.ProcStat{
		{PID: init, UTime: 900}, {PID: us, PPID: init, UTime: 100, STime: 50}, {PID: child, PPID: us, UTime: 200, CUTime: 10},
		{PID: grandchild, PPID: child, STime: 40}, {PID: other, PPID: init, UTime: 7000, CUTime: 100},
	}
	if got := family(running, us); got != 4 {
		t.Errorf("the family took %v s, want 4", got)
	}
	ended := []procfs.ProcStat{running[0], {PID: us, PPID: init, UTime: 100, STime: 50, CUTime: 210, CSTime: 40}, running[4]}
	if got := family(ended, us); got != 4 {
		t.Errorf("with its children ended it took %v s, want 4", got)
	}
}
