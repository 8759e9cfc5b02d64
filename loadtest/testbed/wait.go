package testbed

import (
	"context"
	"time"
)

// Until looks every so often, and returns when there is nothing more to wait for, when a
// look fails, or when it takes longer than patience.
func Until(ctx context.Context, every, patience time.Duration, look func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if done, err := look(ctx); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
