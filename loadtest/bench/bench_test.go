package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"keypool/loadtest/testbed"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way of two bars: the programs as they are shipped, wrk, the checks, figures.
func TestBarsOfRealProcesses(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", programs+"/", "keypool/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := testRun(t, programs)
	_, err := r.onBed(func(bed *testbed.Bed) ([]Bar, error) {
		bare, err := r.startBare(t.Context(), bed)
		if err != nil {
			return nil, err
		}
		creations, err := r.embeddedCreations(t.Context(), bed)
		if err != nil {
			return nil, err
		}
		redirects, err := r.cachedRedirects(t.Context(), bed)
		if err != nil {
			return nil, err
		}
		once := creation(bare)
		figures, err := r.alternate(t.Context(), creations, redirects, r.wrk("bare", wrk{url: once.url, script: "post", args: []string{once.body}}))
		for i, s := range figures {
			if s.Median() < 10 {
				t.Errorf("subject %d: %v answers a second", i, s)
			}
		}
		return nil, err
	})
	if err != nil {
		t.Error(err)
	}
	ms, err := r.firstLink(t.Context())
	if err != nil || ms <= 0 || ms > float64(time.Minute.Milliseconds()) {
		t.Errorf("the first link after %v ms, %v", ms, err)
	}
}

// What fails is left out from then on; the others are measured to the end, and nobody is
// told of a yardstick.
func TestAlternateLeavesOutWhatFails(t *testing.T) {
	t.Parallel()
	right := subject{name: "right", unit: rate, measure: func(context.Context) (float64, error) { return 1, nil }}
	broken := errors.New("broken")
	tests := []struct {
		name      string
		yardstick bool
		want      error
	}{{"a subject", false, broken}, {"a yardstick", true, nil}}
	for _, tt := range tests {
		calls := 0
		r := testRun(t, "")
		r.Rounds = 3
		wrong := subject{name: "wrong", unit: rate, yardstick: tt.yardstick, measure: func(context.Context) (float64, error) {
			if calls++; calls == 2 {
				return 0, broken
			}
			return 1, nil
		}}
		figures, err := r.alternate(t.Context(), wrong, right)
		if !errors.Is(err, tt.want) || calls != 2 || len(figures[0]) != 0 || len(figures[1]) != 3 {
			t.Errorf("%s: %v, %v after %d calls", tt.name, figures, err, calls)
		}
		bars := finished([]Bar{{Measured: figures[0]}, {Measured: figures[1]}, {Measured: figures[1], Versus: "wrong", Baseline: figures[0]}})
		if len(bars) != 1 {
			t.Errorf("%s: %d bars, want the one with figures", tt.name, len(bars))
		}
	}
}

// The end of the context is no failure of what is being measured, and no figure either.
func TestAlternateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := subject{name: "ended", unit: rate, yardstick: true, measure: func(context.Context) (float64, error) {
		cancel()
		return 1, nil
	}}
	if figures, err := testRun(t, "").alternate(ctx, ended); !errors.Is(err, context.Canceled) || len(figures) != 1 || figures[0] != nil {
		t.Errorf("%v, %v", figures, err)
	}
}
