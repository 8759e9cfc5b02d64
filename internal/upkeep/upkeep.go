// Package upkeep contains the loops of periodic tasks, such as the removal of old rows.
package upkeep

import (
	"context"
	"time"
)

// Repeat calls the function do immediately, so that a process that restarts often also does the work. Then it calls do
// once per interval until ctx ends. After each call that ends before ctx, it passes the result to the function note. It
// continues after an error, and always returns nil.
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

// InParts calls the function do until a call fails or processes fewer than size rows, which means that no rows are left.
// timeout limits each call. A call of do should be one short transaction, which does not delay other writers.
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
