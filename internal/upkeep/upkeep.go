// Package upkeep repeats the removal of old rows.
package upkeep

import (
	"context"
	"time"
)

// Repeat calls do at once, and then once per interval until ctx ends. The call at once ensures that a process that often
// restarts does the work too. Repeat passes each result to note, unless ctx has ended. It continues after an error, and
// always returns nil.
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

// InParts calls do, with a time limit for each call, until a call processes fewer than size rows or fails. Each call of do is
// one short transaction, which does not delay other writers.
func InParts(ctx context.Context, size int, timeout time.Duration, do func(context.Context) (n int, err error)) error {
	for {
		part, cancel := context.WithTimeout(ctx, timeout)
		n, err := do(part)
		cancel()
		if err != nil || n < size {
			return err
		}
	}
}
