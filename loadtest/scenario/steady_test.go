package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"

	"github.com/prometheus/procfs"
)

// ended is the record of requests that ended so.
func ended(t *testing.T, states ...loadtest.State) *loadtest.Recorder {
	t.Helper()
	r := loadtest.NewRecorder()
	for _, state := range states {
		one := loadtest.Schedule{Rate: 1, Duration: time.Nanosecond}
		loadtest.Pace(t.Context(), one, 0, r, func(context.Context) loadtest.State { return state })
	}
	return r
}

func TestLatencyIsJudged(t *testing.T) {
	t.Parallel()
	const acknowledged, refused, unsent = loadtest.Acknowledged, loadtest.Refused, loadtest.Unsent
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
		{"beside a hog that may be the deployment", steady{
			beside: two, p99s: []float64{61}, least: [][]float64{{20}, {20}}, others: 0.5, stand: &stand{},
		}, report.Failed},
		{"beside nothing", steady{p99s: []float64{9}}, report.NotJudged},
		{"refused at once", steady{
			beside: two, p99s: []float64{1}, least: [][]float64{{1}, {1}}, total: ended(t, acknowledged, refused),
		}, report.NotJudged},
		{"never sent", steady{beside: two, p99s: []float64{0}, least: [][]float64{{1}, {1}}, total: ended(t, unsent)}, report.NotJudged},
		{"refused, and slow all the same", steady{
			beside: two, p99s: []float64{11}, least: [][]float64{{1}, {1}}, total: ended(t, acknowledged, refused),
		}, report.Failed},
	}
	for i := range tests {
		s := &tests[i].s
		s.rounds = steadyRounds
		if s.stand == nil {
			s.stand = &stand{bed: &testbed.Bed{}}
		}
		if s.total == nil {
			s.total = ended(t, acknowledged)
		}
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
		s := steady{
			rounds: rounds, p99s: []float64{1}, least: [][]float64{{1}}, beside: []*beside{{name: "one thing"}},
			stand: &stand{}, total: ended(t, loadtest.Acknowledged),
		}
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

// Beside what fails, or hangs, any latency would be short enough.
func TestBesideWhatFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		state loadtest.State
		ends  bool // the run, meanwhile
		want  string
	}{
		{"sound", loadtest.Acknowledged, false, ""},
		{"refused", loadtest.Refused, false, "one thing"},
		{"no answer", loadtest.Unknown, false, "one thing"},
		{"not sent", loadtest.Unsent, false, "one thing"},
		{"no answer, as the run is over", loadtest.Unknown, true, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		one := &beside{name: "one thing", do: func(context.Context) loadtest.State {
			if tt.ends {
				cancel()
			}
			return tt.state
		}}
		s := steady{
			rate: 1000, lasts: 50 * time.Millisecond, beside: []*beside{one}, pulse: &pulse{}, stand: &stand{},
			load:  func(context.Context, float64, time.Duration, *loadtest.Recorder) error { return nil },
			total: loadtest.NewRecorder(), least: make([][]float64, 1),
		}
		err := s.round(ctx)
		cancel()
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one about %q", tt.name, err, tt.want)
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
