package program

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Lifecycle records the parts that were started, and stops them in reverse order. A caller
// registers the stop of a part as soon as the part exists, so that a failed start cleans up like
// an orderly stop. The zero value is ready to use. OnStop and Background must not be called
// concurrently.
type Lifecycle struct {
	steps    []teardown
	once     sync.Once
	err      error
	returned int64 // number of unused keys that the steps of the stop returned
}

type teardown struct {
	name string
	stop func(ctx context.Context) error
}

// OnStop registers a step of the stop. The stop runs the last registered step first. Each step
// must return when its context ends.
func (l *Lifecycle) OnStop(name string, stop func(ctx context.Context) error) {
	l.steps = append(l.steps, teardown{name, stop})
}

// Returned records that a step of the stop returned unused keys. The step itself calls Returned.
func (l *Lifecycle) Returned(keys int64) { l.returned += keys }

// Background runs f in a goroutine. The stop cancels the context of f and waits until f returns. If
// f fails before the stop, Background passes the error of f to the callback failed, and the stop
// does not return this error again.
func (l *Lifecycle) Background(name string, failed func(error), f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error {
		err := f(ctx)
		if err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("%s: %w", name, err))
			return nil
		}
		return err
	})
	l.OnStop(name, func(ctx context.Context) error {
		cancel()
		return WaitFor(ctx, g.Wait)
	})
}

// Shutdown runs all steps of the stop. The steps share ctx and its deadline. If a step fails,
// Shutdown continues with the next step. Later calls do nothing and return the result of the
// first call.
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

// WaitFor returns the result of wait. If ctx ends first, WaitFor returns the error of ctx, and a
// goroutine stays blocked in wait. The blocked goroutine does no harm, because WaitFor is called
// only while the process stops.
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
