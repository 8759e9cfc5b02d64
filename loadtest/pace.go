package loadtest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Schedule is an open loop: requests are due at a constant rate, whatever became of earlier
// ones.
type Schedule struct {
	Rate     float64       // requests per second, above 0
	Duration time.Duration // 0: until the context ends
}

// follow calls send for each request at its due time, one after the other. A sender that was
// held up catches up, and each request keeps the time at which it was due. follow ends with
// the schedule or with ctx, without an error, or when send fails.
func (s Schedule) follow(ctx context.Context, send func(due time.Time) error) error {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / s.Rate * float64(time.Second))
		if s.Duration > 0 && due >= s.Duration {
			return nil
		}
		at := start.Add(due)
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
		} else if ctx.Err() != nil {
			return nil
		}
		if err := send(at); err != nil {
			return err
		}
	}
}

// pace is the one pacer. It calls send for each request at its due time, at most inFlight at a
// time, and unsent for a request that finds no room. send calls answered with what became of the
// request, which ends its latency. ctx ends the schedule and no request. pace returns when the
// last request has ended, with the first error of send or unsent, which ends the schedule.
func pace(ctx context.Context, s Schedule, inFlight int, r *Recorder,
	send func(ctx context.Context, answered func(State)) error, unsent func() error,
) error {
	requests := context.WithoutCancel(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	room := make(chan struct{}, cmp.Or(inFlight, DefaultInFlight))
	var running sync.WaitGroup
	err := s.follow(ctx, func(due time.Time) error {
		select {
		case room <- struct{}{}:
		default:
			r.add(Unsent, 0)
			return unsent()
		}
		running.Go(func() {
			defer func() { <-room }()
			if err := send(requests, func(state State) { r.add(state, time.Since(due)) }); err != nil {
				stop(err)
			}
		})
		return nil
	})
	running.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, ctx.Err()) {
		err = cause
	}
	return err
}

// Pace calls do for each request of the schedule, at most inFlight at a time, 0 for
// [DefaultInFlight]. It records what do returns with the time since the request was due. It is
// for requests that need no journal: reads, and the baselines that the service is compared with.
//
// Pace returns when the last call of do has returned. ctx ends the schedule only, so do must
// end by itself.
func Pace(ctx context.Context, s Schedule, inFlight int, r *Recorder, do func(context.Context) State) {
	// Without a journal there is no error.
	_ = pace(ctx, s, inFlight, r, func(ctx context.Context, answered func(State)) error {
		answered(do(ctx))
		return nil
	}, func() error { return nil })
}
