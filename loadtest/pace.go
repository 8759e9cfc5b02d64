package loadtest

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"
)

// Pace calls do for each request of the schedule, at most inFlight at a time, 0 for
// [DefaultInFlight]. What do returns is recorded in r with the time since the request was
// due; a request that finds no room is unsent. It is for whatever needs no journal: reading,
// and what the service is measured beside.
//
// It returns when the last call of do has returned: ctx ends the schedule, and is not what
// do is given. So do must end by itself.
func Pace(ctx context.Context, s Schedule, inFlight int, r *Recorder, do func(context.Context) State) {
	requests := context.WithoutCancel(ctx)
	room := make(chan struct{}, cmp.Or(inFlight, DefaultInFlight))
	var calls sync.WaitGroup
	// It fails only with what the function returns.
	_ = s.follow(ctx, func(intended time.Time) error {
		select {
		case room <- struct{}{}:
		default:
			r.add(Unsent, 0)
			return nil
		}
		calls.Go(func() {
			defer func() { <-room }()
			r.add(do(requests), time.Since(intended))
		})
		return nil
	})
	calls.Wait()
}

// Visits follows links that were acknowledged and keeps what was wrong with them. It may be
// used concurrently.
type Visits struct {
	client *Client
	finder finder
}

// NewVisits makes visits by client, which stays the caller's to close.
func NewVisits(client *Client) *Visits { return &Visits{client: client} }

// Visit follows the link of e once: it is acknowledged when it leads where it ought to,
// refused with any other answer, and unknown without one.
func (v *Visits) Visit(ctx context.Context, e Entry) State {
	status, location, err := v.client.Follow(ctx, e.Code)
	switch {
	case unreached(err):
		return Unsent
	case err != nil:
		return Unknown
	}
	v.finder.checked()
	v.finder.judge(e, status, location)
	if status == http.StatusFound && location == e.URL {
		return Acknowledged
	}
	return Refused
}

// Findings is what was found so far; what got no answer, or one to come again, is not
// among it.
func (v *Visits) Findings() Findings {
	v.finder.mu.Lock()
	defer v.finder.mu.Unlock()
	f := v.finder.findings
	f.Reports = append([]string(nil), f.Reports...)
	return f
}
