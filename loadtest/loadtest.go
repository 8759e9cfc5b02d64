// Package loadtest judges a running URL shortener through HTTP only. It creates links at a
// constant rate and then reads every link back. A journal in memory records the intent of each creation
// before the request and the outcome after the request. The package imports no package of the
// product and trusts no figure that the service reports.
//
// Vocabulary: a creation is one POST for a URL that no other creation uses. An entry is the
// record of one creation in the [Journal]. A creation is acknowledged, refused, unknown or
// unsent ([State]). An acknowledged link is lost when its code leads nowhere. It is wrong when
// its code leads to another URL. A code is issued twice when it was acknowledged for two creations.
//
// Invariants:
//
//   - no request is sent before its intent is in the journal;
//   - a creation is sent at most once, because a retry would hide a duplicate;
//   - a request that was due and could not be sent counts as a failure.
//
// The package does not use the load generator vegeta, for two reasons. First, vegeta measures a
// request from the moment at which one of its workers is free, so its latencies omit the wait for a
// worker. This error is called coordinated omission (G. Tene, "How NOT to measure latency"). Second,
// vegeta cannot record an intent before each request.
package loadtest

import (
	"context"
	"time"
)

// Defaults for parameters that are 0. DefaultInFlight is so large that a short stall of the disk or
// the machine leaves no request unsent. It is a little less than the number of creations that a server
// queues (4,096).
const (
	DefaultInFlight = 4000
	DefaultTimeout  = 10 * time.Second
)

// noRoom is the detail of a creation that was not sent because too many requests were in flight.
// The cause may be the service or a slow machine.
const noRoom = "too many requests in flight"

// Load creates links and records them in a journal. Its methods may be called concurrently.
type Load struct {
	client   *Client
	journal  *Journal
	inFlight int
}

// NewLoad returns a load with at most inFlight requests at a time; 0 means [DefaultInFlight]. The
// caller closes client.
func NewLoad(client *Client, journal *Journal, inFlight int) *Load {
	return &Load{client: client, journal: journal, inFlight: inFlight}
}

// Run sends requests by the schedule s until s or ctx ends. The end of ctx cancels no request.
// Run returns when the last request has its outcome. It adds the results to r.
func (l *Load) Run(ctx context.Context, s Schedule, r *Recorder) {
	pace(ctx, s, l.inFlight, r, func(ctx context.Context, answered func(State)) {
		l.record(func(url string) Outcome {
			o := l.client.Create(ctx, url)
			answered(o.State)
			return o
		})
	}, func() {
		l.record(func(string) Outcome { return Outcome{State: Unsent, Detail: noRoom} })
	})
}

// One creates one link and returns its entry.
func (l *Load) One(ctx context.Context) Entry {
	return l.record(func(url string) Outcome { return l.client.Create(ctx, url) })
}

// record records the intent of a creation, calls create, and records the outcome.
func (l *Load) record(create func(url string) Outcome) Entry {
	entry := l.journal.Intend()
	entry.Outcome = create(entry.URL)
	l.journal.Settle(entry.N, entry.Outcome)
	return entry
}

// Verdict is the result of a run: how the requests were answered, and what was wrong with the
// links when they were read back.
type Verdict struct {
	Figures
	Findings
}
