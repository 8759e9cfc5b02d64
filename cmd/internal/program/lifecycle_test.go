package program

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifecycleStopsPartsOnceInReverseOrder(t *testing.T) {
	t.Parallel()
	var l Lifecycle
	var order []string
	broken := errors.New("broken")
	for _, name := range []string{"first", "second", "third"} {
		l.OnStop(name, func(context.Context) error {
			order = append(order, name)
			if name == "second" {
				return broken
			}
			return nil
		})
	}
	for range 2 {
		if err := l.Shutdown(t.Context()); !errors.Is(err, broken) {
			t.Errorf("Shutdown = %v, want the error of the second step", err)
		}
	}
	if want := []string{"third", "second", "first"}; !slices.Equal(order, want) {
		t.Errorf("stopped %v, want %v", order, want)
	}
}

func TestLifecycleShutdownReturnsWhenContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lifecycle
		release := make(chan struct{})
		l.Background("stubborn", func(err error) { t.Errorf("failed: %v", err) }, func(ctx context.Context) error {
			<-ctx.Done()
			<-release
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %v, want the error of its context", err)
		}
		close(release)
	})
}

func TestLifecycleReportsBackgroundFailure(t *testing.T) {
	t.Parallel()
	var l Lifecycle
	failed := make(chan error, 1)
	broken := errors.New("broken")
	l.Background("part", func(err error) { failed <- err }, func(context.Context) error { return broken })
	if err := <-failed; !errors.Is(err, broken) {
		t.Errorf("the reported failure is %v, want %v", err, broken)
	}
	if err := l.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v, want nil, because the failure was reported", err)
	}
}

func TestStopReturnsFailureIfWaitWasNotCalled(t *testing.T) {
	t.Parallel()
	p := New(slog.New(slog.DiscardHandler))
	broken := errors.New("broken")
	p.Fail(broken)
	if err := p.Stop(); !errors.Is(err, broken) {
		t.Errorf("Stop = %v, want %v", err, broken)
	}
}
