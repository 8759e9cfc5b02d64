// Package lab runs the real programs and the servers that they need, on 127.0.0.1, for
// experiments and for tests of the harness. It provides processes, databases, a proxy, a webhook
// receiver, traffic, metrics, memory figures, audits and waiting.
//
// Invariants:
//
//   - nothing that the lab starts outlives the run or this process;
//   - a metric that a program does not report is an error and never counts as 0;
//   - if a cleanup fails, it reports its error, and the other cleanups still run.
//
// A function that returns an error leaves the reaction to the caller. Every other function ends the run when
// it fails. Only the goroutine of the run may call such a function, unless the comment of the function says
// otherwise. Some functions have both forms: TryAudit returns an error, and Audit ends the run.
package lab

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// T is what the lab needs from a test or from a run of an experiment. *testing.T and *experiment.T implement
// it.
type T interface {
	Context() context.Context
	Cleanup(f func())
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Run is a T that also says which programs to start and with which settings. *experiment.T implements it.
type Run interface {
	T
	// ProgramDir returns the directory of the built programs.
	ProgramDir() string
	// Settings returns settings that override the settings of every program.
	Settings() []string
}

const (
	pollEvery = 10 * time.Millisecond
	// Patience is the limit for operations that take seconds in the worst case.
	Patience = time.Minute
)

// Wait waits until ok returns true. It ends the run if ok is still false after limit.
func Wait(r T, limit time.Duration, what string, ok func() bool) {
	if !Happens(r, limit, ok) {
		r.Fatalf("for %v, the run did not observe that %s", limit, what)
	}
}

// Happens waits until ok returns true or limit has passed. It reports whether ok returned true. If the run
// is interrupted, Happens ends the run.
func Happens(r T, limit time.Duration, ok func() bool) bool {
	err := Until(r.Context(), pollEvery, limit, func(context.Context) (bool, error) { return ok(), nil })
	if r.Context().Err() != nil && err != nil {
		r.Fatalf("interrupted: %v", err)
	}
	return err == nil
}

// Until calls the function look immediately, and then at intervals. The parameter every is the length of an interval.
// Until stops when a call of look returns done, when limit has passed or when ctx has ended. If a call returned done,
// Until returns the error of this call. Otherwise the error of Until wraps two errors: the end of the context, and the
// last error of look, which says what is missing.
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
		case ctx.Err() == nil || missing == nil: // an error of a cancelled call does not replace an earlier error
			missing = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), missing)
		}
	}
}

// Pause waits for d. It ends the run if the run is interrupted.
func Pause(r T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
		r.Fatalf("interrupted: %v", r.Context().Err())
	}
}

// Together calls do(0) to do(n-1) concurrently, with at most width calls at the same time, and returns the first error.
func Together(n, width int, do func(i int) error) error {
	var calls errgroup.Group
	calls.SetLimit(width)
	for i := range n {
		calls.Go(func() error { return do(i) })
	}
	return calls.Wait()
}

// must ends the run when err is not nil.
func must(r T, err error, doing string) {
	if err != nil {
		r.Fatalf("%s: %v", doing, err)
	}
}
