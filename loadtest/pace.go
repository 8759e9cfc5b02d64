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

// follow calls send for each request at its due time, one call at a time. If a call of send takes too
// long, the following requests are late. follow then sends them without a pause and passes their original
// due times. follow returns when the schedule or ctx ends.
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
			}
		}
		if ctx.Err() != nil { // select may choose the timer although ctx has ended too
			return
		}
		send(at)
	}
}

// pace calls send for each request at its due time, with at most inFlight calls at a time. It calls
// unsent instead for a request that would exceed this limit. When the answer to a request arrives, send
// must call answered with the state of the request. pace then records in r the state and the latency,
// which is the time from the due time to the call of answered.
//
// When ctx ends, pace sends no further request and waits for the requests in flight.
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
// [DefaultInFlight]. It makes no call for a request beyond this limit, and records this request as [Unsent].
// Pace records in r the state that do returns, and the time from the due time of the request to the return of
// do. Pace is for requests that need no [Journal], such as reads and the baselines of package measure.
//
// When ctx ends, Pace makes no further call and waits until the running calls return. do gets a context
// that does not end with ctx, so do must have its own time limit.
func Pace(ctx context.Context, s Schedule, inFlight int, r *Recorder, do func(context.Context) State) {
	pace(ctx, s, inFlight, r, func(ctx context.Context, answered func(State)) { answered(do(ctx)) }, func() {})
}
