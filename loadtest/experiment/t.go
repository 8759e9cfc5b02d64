package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"keypool/loadtest/report"
)

// Options are the settings that all experiments of a run share.
type Options struct {
	Programs string  // the directory of the built programs
	Scale    float64 // scale of numbers and durations; for example, 1 means 200 kills in fault/1 and a minute without Redis in fault/6
	Full     bool    // the experiments run at full size, such as 100,000,000 keys; this takes minutes to hours

	// Target is the public URL of a deployment that is already running. If it is "", the experiment starts its own
	// servers. Only an experiment with Definition.Anywhere can use a deployment.
	Target string

	Rate     float64       // creations per second; 0 means the default of the experiment
	Duration time.Duration // duration of a steady load; 0 means the default of the experiment

	Log  func(line string) // called concurrently, with one line for each step
	Live func(Live)        // called concurrently, with the progress of an experiment
}

// Live is the progress of an experiment.
type Live struct {
	Experiment, Phase string
	Done              float64 // share of the experiment that is done, from 0 to 1
	Detail            string  // figures of the phase, such as the level of a pool; "" at the beginning of a phase
}

// T is one run of an experiment. Package lab uses a T like a testing.TB: it registers cleanups that end
// what it started, and Fatalf ends the run. Only the goroutine of the run may call Fatalf, Must and Refute.
// All other methods may be called concurrently.
type T struct {
	Options
	name     string
	settings []string // settings of the control; nil in a run that is not a control
	sound    bool     // true if this run is not a control, so neither the programs nor the settings are changed
	observe  func() (end func() disturbance)
	ctx      context.Context

	mu       sync.Mutex
	dir      string
	cleanups []func()
	failure  error
	phase    Live // the phase in progress

	refuted, why string // the claim that ended the run, and the reason
}

// Context returns a context that ends when the run is interrupted.
func (t *T) Context() context.Context { return t.ctx }

// Logf writes one line to the log of the run.
func (t *T) Logf(format string, args ...any) { t.Log(t.name + ": " + fmt.Sprintf(format, args...)) }

// Settings returns the settings that a control adds to every program. They override all other
// settings.
func (t *T) Settings() []string { return t.settings }

// ProgramDir returns the directory of the programs that this run starts.
func (t *T) ProgramDir() string { return t.Programs }

// Phase reports what the run is doing and how much of it is done, from 0 to 1.
func (t *T) Phase(done float64, format string, args ...any) {
	phase := Live{Experiment: t.name, Phase: fmt.Sprintf(format, args...), Done: done}
	t.mu.Lock()
	t.phase = phase
	t.mu.Unlock()
	t.Live(phase)
}

// Detail reports figures of the phase in progress.
func (t *T) Detail(format string, args ...any) {
	t.mu.Lock()
	phase := t.phase
	t.mu.Unlock()
	phase.Detail = fmt.Sprintf(format, args...)
	t.Live(phase)
}

// Times returns the product of n and the scale of the run, but at least 1.
func (t *T) Times(n int) int { return max(1, int(float64(n)*t.Scale)) }

// Lasting returns the product of d and the scale of the run.
func (t *T) Lasting(d time.Duration) time.Duration { return time.Duration(float64(d) * t.Scale) }

// Fatalf ends the run with an error. The experiment then counts as incomplete.
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

// Refute ends the run because an observation refutes the claim. The claim then counts as failed,
// with the reason in format and args.
func (t *T) Refute(claim, format string, args ...any) {
	t.refuted, t.why = claim, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Errorf records an error and continues. The experiment then counts as incomplete.
func (t *T) Errorf(format string, args ...any) { t.fail(fmt.Errorf(format, args...)) }

func (t *T) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = errors.Join(t.failure, err)
}

// Cleanup registers a function for the end of the run. The functions are called in reverse order.
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
		panic(err) // this process has just made the parent directory
	}
	return dir
}

// do calls f in a separate goroutine, because Fatalf, Must and Refute end the goroutine. When f has
// ended, do cleans up. It returns the errors of the run.
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
	if t.failure != nil && t.ctx.Err() == nil {
		t.showLogs()
	}
	return errors.Join(t.failure, os.RemoveAll(dir))
}

// logEnd is the maximum number of bytes that showLogs shows of the log of each program.
const logEnd = 2000

// showLogs logs the end of the log of every program of Keypool that the run started.
func (t *T) showLogs() {
	dir := os.DirFS(t.dir)
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".log" {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		switch {
		case err != nil:
			t.Logf("cannot read %s: %v", name, err)
		case len(text) > 0:
			t.Logf("the end of %s:\n%s", name, text[max(0, len(text)-logEnd):])
		}
		return nil // show the other logs too
	})
	if err != nil {
		t.Logf("cannot find the logs of the run: %v", err)
	}
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

// refute marks the claim that ended the run as failed.
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
