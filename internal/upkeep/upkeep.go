// Package upkeep contains the loops of periodic tasks, such as the removal of old rows.
package upkeep

import (
	"context"
	"time"
)

// Repeat calls the function do immediately, and then once per interval until ctx ends. Without the immediate call, a
// process that restarts more often than once per interval would never do the work. After each call that ends before ctx,
// Repeat passes the result to the function note. It continues after an error, and always returns nil.
func Repeat(ctx context.Context, interval time.Duration, do func(context.Context) error, note func(error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := do(ctx); ctx.Err() == nil {
			note(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// MaxPause is the longest wait between two parts of a task.
const MaxPause = 250 * time.Millisecond

// InParts calls the function do until a call fails or processes fewer than size rows, which means that no rows are
// left. timeout limits each call. A call of do should be one short transaction, which does not delay other writers.
// Between two calls, InParts waits for as long as the last call took, but at most MaxPause. Without this wait, other
// processes could hardly write to an SQLite file.
func InParts(ctx context.Context, size int, timeout time.Duration, do func(context.Context) (n int, err error)) error {
	for {
		begin := time.Now()
		part, cancel := context.WithTimeout(ctx, timeout)
		n, err := do(part)
		cancel()
		if err != nil || n < size {
			return err
		}
		if err := Pause(ctx, min(time.Since(begin), MaxPause)); err != nil {
			return err
		}
	}
}

// Pause waits for the duration d. If ctx ends earlier, Pause returns the error of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
