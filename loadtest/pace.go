package loadtest

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Schedule is an open loop. Requests are due at a constant rate and do not wait for the answers to
// earlier requests.
type Schedule struct {
	Rate     float64       // requests per second, above 0
	Duration time.Duration // 0 means until the context ends
}

// follow calls send for each request at its due time, one call at a time. After a delay it sends the
// late requests without a pause, and each request keeps its due time. follow returns when the schedule or
// ctx ends.
func (s Schedule) follow(ctx context.Context, send func(due time.Time)) {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / s.Rate * float64(time.Second))
		if s.Duration > 0 && due >= s.Duration {
			return
		}
		at := start.Add(due)
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		send(at)
	}
}

// pace calls send for each request at its due time, with at most inFlight calls at a time. It calls
// unsent for a request that would exceed this limit. When the answer to a request arrives, send
// must call the function answered with the state of the request. The latency ends at this call. pace
// records the state and the latency in r.
//
// The end of ctx ends the schedule and cancels no request. pace returns when the last request has ended.
func pace(ctx context.Context, s Schedule, inFlight int, r *Recorder, send func(ctx context.Context, answered func(State)), unsent func()) {
	requests := context.WithoutCancel(ctx)
	room := make(chan struct{}, cmp.Or(inFlight, DefaultInFlight))
	var running sync.WaitGroup
	s.follow(ctx, func(due time.Time) {
		select {
		case room <- struct{}{}:
		default:
			r.add(Unsent, 0)
			unsent()
			return
		}
		running.Go(func() {
			defer func() { <-room }()
			send(requests, func(state State) { r.add(state, time.Since(due)) })
		})
	})
	running.Wait()
}

// Pace calls do for each request of the schedule, with at most inFlight calls at a time; 0 means
// [DefaultInFlight]. It records in r the state that do returns and the time since the request was due.
// Pace is for requests that need no [Journal], such as reads and the baselines of package measure.
//
// Pace returns when the last call of do has returned. The end of ctx ends only the schedule, so every
// call of do must return by itself.
func Pace(ctx context.Context, s Schedule, inFlight int, r *Recorder, do func(context.Context) State) {
	pace(ctx, s, inFlight, r, func(ctx context.Context, answered func(State)) { answered(do(ctx)) }, func() {})
}
