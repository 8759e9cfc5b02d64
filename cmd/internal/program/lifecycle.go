package program

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Lifecycle records what was started and stops it in reverse order. A caller registers a teardown as
// soon as its resource exists, so that a start that fails half-way cleans up like an orderly stop. The
// zero value is ready to use. OnStop and Background must not be called concurrently.
type Lifecycle struct {
	steps []teardown
	once  sync.Once
	err   error
}

type teardown struct {
	name string
	stop func(ctx context.Context) error
}

// OnStop registers a step of the stop, which runs before the steps registered earlier. It
// must return when its context ends.
func (l *Lifecycle) OnStop(name string, stop func(ctx context.Context) error) {
	l.steps = append(l.steps, teardown{name, stop})
}

// Background runs f until the stop reaches it, and then waits for it to return. An error before
// that is passed to failed.
func (l *Lifecycle) Background(name string, failed func(error), f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error {
		err := f(ctx)
		if err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("%s: %w", name, err))
		}
		return err
	})
	l.OnStop(name, func(ctx context.Context) error {
		cancel()
		return WaitFor(ctx, g.Wait)
	})
}

// Shutdown runs the teardowns once; further calls return the result of the first. Each step gets what is
// left of ctx. A step that fails does not prevent the next ones.
func (l *Lifecycle) Shutdown(ctx context.Context) error {
	l.once.Do(func() {
		var errs []error
		for i := len(l.steps) - 1; i >= 0; i-- {
			if err := l.steps[i].stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", l.steps[i].name, err))
			}
		}
		l.err = errors.Join(errs...)
	})
	return l.err
}

// WaitFor returns the result of wait, or the error of ctx if ctx ends first. In that case the
// goroutine that still waits ends with the process, which is about to exit.
func WaitFor(ctx context.Context, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
