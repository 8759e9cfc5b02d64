package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// lifecycle remembers what was started and ends it in reverse order. A teardown is
// registered as soon as its resource exists, so that a start that fails half-way
// cleans up after itself in the same way as an orderly stop.
type lifecycle struct {
	steps []teardown
	once  sync.Once
	err   error
}

type teardown struct {
	name string
	stop func(ctx context.Context) error
}

// onStop registers stop, which is to return when ctx ends.
func (l *lifecycle) onStop(name string, stop func(ctx context.Context) error) {
	l.steps = append(l.steps, teardown{name, stop})
}

// background runs f until the stop reaches this point of the order, and then waits
// for it to return. An error before that is handed to failed.
func (l *lifecycle) background(name string, failed func(error), f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error {
		err := f(ctx)
		if err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("%s: %w", name, err))
		}
		return err
	})
	l.onStop(name, func(ctx context.Context) error {
		cancel()
		return waitFor(ctx, g.Wait)
	})
}

// stop ends everything, however often it is called; each step gets what is left of
// ctx, and a step that fails does not keep the others from being stopped.
func (l *lifecycle) stop(ctx context.Context) error {
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

// waitFor returns what wait returns, or the error of ctx if that ends first; then
// the goroutine that still waits ends with the process, which is about to exit.
func waitFor(ctx context.Context, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
