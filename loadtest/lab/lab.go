// Package lab runs the real programs and the servers that they need, on 127.0.0.1, for
// experiments and for tests of the harness. It does each thing in one way: processes,
// databases, a proxy, a webhook receiver, traffic, metrics, memory, audits and waiting.
//
// Invariants:
//
//   - everything that the lab starts has ended when the run is over, and also when this
//     process dies in any way;
//   - a metric that nothing reported is an error, never 0;
//   - a cleanup reports what went wrong and goes on with the others.
//
// Functions whose name starts with Try return an error. All others end the run when they fail,
// so only the goroutine of the run may call them, except where their comment says otherwise.
package lab

import (
	"context"
	"errors"
	"time"
)

// T is what the lab needs of a test or of a run of an experiment. *testing.T and
// *experiment.T have it.
type T interface {
	Context() context.Context
	Cleanup(f func())
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Run is a T that says which programs to start. *experiment.T has it.
type Run interface {
	T
	// ProgramDir is the directory of the built programs.
	ProgramDir() string
	// Settings are added to those of every program, and count before them.
	Settings() []string
}

const (
	pollEvery = 10 * time.Millisecond
	// Patience is a limit for what takes seconds at the worst.
	Patience = time.Minute
)

// Wait waits until ok returns true. It ends the run when that takes longer than limit.
func Wait(r T, limit time.Duration, what string, ok func() bool) {
	if !Happens(r, limit, ok) {
		r.Fatalf("still not true after %v: %s", limit, what)
	}
}

// Happens waits until ok returns true, at most for limit, and returns whether it did. It
// ends the run only when the run is interrupted.
func Happens(r T, limit time.Duration, ok func() bool) bool {
	err := Until(r.Context(), pollEvery, limit, func(context.Context) (bool, error) { return ok(), nil })
	if r.Context().Err() != nil && err != nil {
		r.Fatalf("interrupted: %v", err)
	}
	return err == nil
}

// Until calls look now and then every period, until look is done, limit has passed or ctx has
// ended. It returns the error of the look that was done. When none was, the error wraps that of
// ctx, and the last error of a look, which says what is missing.
func Until(ctx context.Context, every, limit time.Duration, look func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var missing error
	for {
		done, err := look(ctx)
		switch {
		case done:
			return err
		case ctx.Err() == nil || missing == nil: // a look that the end of ctx cut short explains nothing
			missing = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), missing)
		}
	}
}

// Pause lets d pass. It ends the run when the run is interrupted.
func Pause(r T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
		r.Fatalf("interrupted: %v", r.Context().Err())
	}
}

// must ends the run when err is not nil.
func must(r T, err error, doing string) {
	if err != nil {
		r.Fatalf("%s: %v", doing, err)
	}
}
