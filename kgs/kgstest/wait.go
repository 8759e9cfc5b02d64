package kgstest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Await polls until done returns true. It fails the test after two minutes.
func Await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("condition not met within 2 min: %s", what)
		}
	}
}

// InParallel runs f 16 times concurrently and returns the results.
func InParallel[T any](t *testing.T, f func(i int) (T, error)) []T {
	t.Helper()
	results := make([]T, 16)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			var err error
			if results[i], err = f(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return results
}

// CloseAfter calls closer when the test ends. It fails the test if closer fails.
func CloseAfter(t testing.TB, closer func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := closer(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
