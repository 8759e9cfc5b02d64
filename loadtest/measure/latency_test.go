package measure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

func TestLatencyIsJudgedAgainstBaselines(t *testing.T) {
	t.Parallel()
	two := Steady{Baselines: []Baseline{{Name: "one thing"}, {Name: "another"}}}
	fast := []Series{{1}, {1}}
	slow := []Series{{20}, {20}}
	refused := loadtest.Figures{Sent: 2, Acknowledged: 1, Refused: 1}
	tests := []struct {
		name string
		l    Latencies
		want report.Outcome
	}{
		{"fast", Latencies{Steady: two, P99: Series{9, 9, 9}, Beside: fast}, report.Held},
		{"slow", Latencies{Steady: two, P99: Series{11, 11, 11}, Beside: fast}, report.Failed},
		{"slow in one round", Latencies{Steady: two, P99: Series{9, 500, 9}, Beside: fast}, report.Held},
		{"as slow as the machine", Latencies{Steady: two, P99: Series{60}, Beside: slow}, report.Held},
		{"slower than the machine", Latencies{Steady: two, P99: Series{61}, Beside: slow}, report.Failed},
		{"no baseline", Latencies{P99: Series{9}}, report.NotJudged},
		{"requests are refused at once", Latencies{Steady: two, P99: Series{1}, Beside: fast, Total: refused}, report.NotJudged},
		{"requests are never sent", Latencies{Steady: two, P99: Series{0}, Beside: fast, Total: loadtest.Figures{Unsent: 1}}, report.NotJudged},
		{"requests are refused and slow", Latencies{Steady: two, P99: Series{11}, Beside: fast, Total: refused}, report.Failed},
	}
	for _, tt := range tests {
		tt.l.Rounds = LatencyRounds
		if got := tt.l.Verdict(); got.Outcome != tt.want {
			t.Errorf("%s: the outcome is %s because %q, want %s", tt.name, got.Outcome, got.Why, tt.want)
		}
	}
	if got := (*Latencies)(nil).Verdict(); got.Outcome != "" {
		t.Errorf("without a measurement the verdict is %q", got.Outcome)
	}
}

func TestIncompleteMeasurementCanOnlyRefuteClaims(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int][]report.Outcome{
		0:             {report.NotJudged, report.NotJudged, report.Failed},
		1:             {report.NotJudged, report.NotJudged, report.Failed},
		LatencyRounds: {report.Held, report.Held, report.Failed},
	} {
		l := Latencies{Steady: Steady{Baselines: []Baseline{{Name: "one thing"}}}, Rounds: rounds, P99: Series{1}, Beside: []Series{{1}}}
		got := []experiment.Verdict{l.Verdict(), l.Complete(experiment.None(0, "none failed")), l.Complete(experiment.None(1, "one failed"))}
		for i, v := range got {
			if v.Outcome != want[i] {
				t.Errorf("after %d rounds verdict %d is %s because %q, want %s", rounds, i, v.Outcome, v.Why, want[i])
			}
		}
	}
}

// A baseline with failures or without answers gives no usable bound, so Latency ends with an
// error.
func TestLatencyFailsIfBaselineFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("no connection")
	for _, tt := range []struct {
		name string
		o    Observed
		err  error
		ends bool // the run ends during the baseline
		want string
	}{
		{"sound", Observed{Acknowledged: 9}, nil, false, ""},
		{"some requests failed", Observed{Acknowledged: 9, Failed: 1, Reason: "disk full"}, nil, false, "one thing: 9 requests succeeded and 1 failed: disk full"},
		{"no request got an answer", Observed{}, nil, false, "one thing: 0 requests"},
		{"the baseline returns an error", Observed{}, failure, false, "no connection"},
		{"the baseline returns an error at the end of the run", Observed{}, failure, true, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		b := Baseline{Name: "one thing", Run: func(context.Context, float64, time.Duration) (Observed, error) {
			if calls++; calls == 1 { // the first call is the warm-up
				return Observed{}, nil
			}
			if tt.ends {
				cancel()
			}
			return tt.o, tt.err
		}}
		load := func(context.Context, float64, time.Duration, *loadtest.Recorder) {}
		l, err := Latency(ctx, Steady{
			Rate: 1000, Lasts: time.Millisecond, Baselines: []Baseline{b}, Load: load,
		})
		cancel()
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Latency returns the error %v, want an error that contains %q", tt.name, err, tt.want)
		}
		if sound := tt.name == "sound"; sound != (l.Rounds == LatencyRounds) {
			t.Errorf("%s: %d of %d rounds are complete", tt.name, l.Rounds, LatencyRounds)
		}
	}
}

func TestBaselinesSendRequestsAtGivenRate(t *testing.T) {
	t.Parallel()
	postgres := lab.Postgres(t)
	for _, b := range []Baseline{LoneInsert(t, postgres.URL), BareRedirect(t)} {
		for range 2 {
			o, err := b.Run(t.Context(), 100, 200*time.Millisecond)
			if err != nil || o.Acknowledged != 20 || o.Failed != 0 || o.P99 <= 0 {
				t.Errorf("%s: Run returns %+v and the error %v, want 20 requests", b.Name, o, err)
			}
		}
	}
	insert := LoneInsert(t, postgres.URL)
	postgres.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if o, err := insert.Run(ctx, 100, 200*time.Millisecond); err == nil && (o.Failed != 20 || o.Reason == "") {
		t.Errorf("a baseline on a database that is not running observed %+v, want 20 failures with a reason", o)
	}
}

func TestBaselineServersGiveValidAnswers(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"bare": BareServer(t), "nginx": Nginx(t)} {
		if err := TryVisit(t.Context(), url, "any", Target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "bare" {
			if err := TryCreation(t.Context(), url, `{"url":"`+Target+`"}`); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestLatencyMeasuresLoadOnBareServer(t *testing.T) {
	t.Parallel()
	client := loadtest.NewClient(BareServer(t), 0)
	t.Cleanup(client.Close)
	load := loadtest.NewLoad(client, loadtest.NewJournal(), 0)
	l, err := Latency(t.Context(), Steady{
		Rate: 200, Lasts: 500 * time.Millisecond, Baselines: []Baseline{BareRedirect(t)},
		Load: func(ctx context.Context, rate float64, d time.Duration, r *loadtest.Recorder) {
			load.Run(ctx, loadtest.Schedule{Rate: rate, Duration: d}, r)
		},
	})
	if err != nil || l.Rounds != LatencyRounds || len(l.P99) != LatencyRounds || len(l.Beside[0]) != LatencyRounds {
		t.Fatalf("the measurement has the result %+v and the error %v, want %d rounds", l, err, LatencyRounds)
	}
	if l.Total.Acknowledged != 100 || l.All().Acknowledged != 160 || l.Seconds < 0.4 {
		t.Errorf("%d creations are acknowledged in %.1f s, and %d with the warm-up, want 100, at least 0.4 s, and 160", l.Total.Acknowledged, l.Seconds, l.All().Acknowledged)
	}
}
