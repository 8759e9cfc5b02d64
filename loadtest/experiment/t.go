package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"keypool/loadtest/report"
)

// Options are what every experiment of a run is given.
type Options struct {
	Programs string  // the directory of the built programs
	Scale    float64 // how much of a fault row is done: 1 is 200 kills and a minute of load
	Full     bool    // not scaled down: minutes to hours

	// A deployment that runs already. Experiments that can run anywhere use it.
	Target string // its public URL; "": the experiment starts what it needs
	Admin  string // the URL of one server's admin listener; "" when there is none
	Climb  bool   // go beyond the steady rate there too

	Rate     float64       // creations per second; 0 stands for the experiment's own
	Duration time.Duration // of a steady load; 0 stands for the experiment's own

	Log  func(line string) // gets one line for each step; called concurrently
	Live func(Live)        // gets the progress, about once a second; called concurrently
}

// Live is the progress of an experiment.
type Live struct {
	Experiment, Phase string
	Done              float64 // 0 to 1
	Rate              float64 // requests per second
	P99               time.Duration
	PoolKeys          *int64 // nil: unknown, or no pool
	Runway            *time.Duration
}

// T is one run of an experiment. It serves package lab as a testing.TB serves a test: what is
// started ends with it, and Fatalf ends the run. Its methods may be called concurrently, except
// that only the goroutine of the run may call Fatalf and Refute.
type T struct {
	Options
	name     string
	settings []string // of a control
	sound    bool     // the programs are; this is no control
	observe  func() (foreign func() float64)
	ctx      context.Context

	mu       sync.Mutex
	dir      string
	cleanups []func()
	failure  error

	refuted, why string // the claim that ended the run
}

// Context ends when the run is interrupted.
func (t *T) Context() context.Context { return t.ctx }

// Helper does nothing; package lab marks its helpers for tests.
func (t *T) Helper() {}

// Logf writes one line to the log of the run.
func (t *T) Logf(format string, args ...any) { t.Log(t.name + ": " + fmt.Sprintf(format, args...)) }

// Settings are those that a control adds to every program, after all others.
func (t *T) Settings() []string { return t.settings }

// ProgramDir is the directory of the programs that this run starts.
func (t *T) ProgramDir() string { return t.Programs }

// Phase shows what the run is doing and how far it is, from 0 to 1.
func (t *T) Phase(done float64, format string, args ...any) {
	t.Live(Live{Experiment: t.name, Phase: fmt.Sprintf(format, args...), Done: done})
}

// Times is n at the scale of the run, at least 1.
func (t *T) Times(n int) int { return max(1, int(float64(n)*t.Scale)) }

// Lasting is d at the scale of the run.
func (t *T) Lasting(d time.Duration) time.Duration { return time.Duration(float64(d) * t.Scale) }

// Fatalf ends the run with an error: the experiment could not be done.
func (t *T) Fatalf(format string, args ...any) {
	t.Must(fmt.Errorf(format, args...))
}

// Must ends the run when err is not nil.
func (t *T) Must(err error) {
	if err != nil {
		t.fail(err)
		runtime.Goexit()
	}
}

// Refute ends the run: what happened refutes the claim, and going on has no purpose.
func (t *T) Refute(claim, format string, args ...any) {
	t.refuted, t.why = claim, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Errorf records an error and goes on; the experiment then counts as not done.
func (t *T) Errorf(format string, args ...any) { t.fail(fmt.Errorf(format, args...)) }

func (t *T) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = errors.Join(t.failure, err)
}

// Cleanup has f called when the run is over, the last one first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir makes a directory that is removed after the run.
func (t *T) TempDir() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, err := os.MkdirTemp(t.dir, "run-")
	if err != nil {
		panic(err) // the parent directory was made by this process a moment ago
	}
	return dir
}

// do calls f in a goroutine of its own, which f may end, and then cleans up.
func (t *T) do(f func()) error {
	dir, err := os.MkdirTemp("", "keypool-experiment-")
	if err != nil {
		return err
	}
	t.dir = dir
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanUp()
		f()
	}()
	<-done
	return errors.Join(t.failure, os.RemoveAll(dir))
}

func (t *T) cleanUp() {
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		last := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		last()
	}
}

// refute enters what ended the run.
func (t *T) refute(claims []report.Claim) {
	if t.refuted == "" {
		return
	}
	i := slices.IndexFunc(claims, func(c report.Claim) bool { return c.Name == t.refuted })
	if i < 0 {
		panic("claim " + t.refuted + " is not declared")
	}
	claims[i].Outcome, claims[i].Why = report.Failed, t.why
}
