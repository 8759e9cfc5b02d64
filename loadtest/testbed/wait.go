package testbed

import (
	"context"
	"fmt"
	"time"
)

// Until looks every so often until a look is done, and returns the error of that one: done
// with an error gives up. The error of a look that is not done says what is missing; it may
// be nil. When it takes longer than patience, or ctx ends, the last of those is in the error.
func Until(ctx context.Context, every, patience time.Duration, look func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var missing error
	for {
		done, err := look(ctx)
		switch {
		case done:
			return err
		case ctx.Err() == nil || missing == nil: // or else it may be about nothing but the end of ctx
			missing = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return late(ctx.Err(), patience, missing)
		}
	}
}

// late is the error of a wait that did not come to its end.
func late(end error, patience time.Duration, missing error) error {
	if missing == nil {
		return fmt.Errorf("waited for %v at the most: %w", patience, end)
	}
	return fmt.Errorf("waited for %v at the most: %w; last seen: %w", patience, end, missing)
}

// Pause lets time go by, for which nobody has to look at anything. When ctx ends first it
// returns at once, with the error of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
