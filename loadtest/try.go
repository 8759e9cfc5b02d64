package loadtest

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Try follows the schedule as [Load.Run] does, with try in the place of a creation, to
// measure something else beside it in the same way. It counts as acknowledged what returns
// nil and as refused what does not, and returns one of the errors.
func Try(ctx context.Context, s Schedule, r *Recorder, try func(context.Context) error) error {
	tries := context.WithoutCancel(ctx)
	var g errgroup.Group
	g.SetLimit(DefaultInFlight)
	err := s.follow(ctx, func(intended time.Time) error {
		sent := g.TryGo(func() error {
			err, state := try(tries), Acknowledged
			if err != nil {
				state = Refused
			}
			r.add(state, time.Since(intended))
			return err
		})
		if !sent {
			r.add(Unsent, 0)
		}
		return nil
	})
	return errors.Join(err, g.Wait())
}
