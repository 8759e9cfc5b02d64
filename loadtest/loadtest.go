// Package loadtest judges a running URL shortener through HTTP only. It creates links at a constant
// rate and then reads every acknowledged link back. A journal in memory records the intent of each
// creation before the request, and its outcome after the request. The package imports no package of
// the product and uses no figure that the service reports. A wrong figure of the service therefore
// cannot change the verdict.
//
// Vocabulary: a creation is one POST for a URL that no other creation uses. An entry is the record of
// one creation in the [Journal]. A creation is acknowledged, refused, unknown or unsent ([State]). An
// acknowledged link is lost when the service answers a request for its code with 404 or 410. An
// acknowledged link is wrong when its code leads to another URL, or when the answer has an unexpected
// status such as 200 or 301. A code is issued twice when two creations with this code were acknowledged.
//
// Invariants:
//
//   - the intent of a creation is in the journal before its request is sent;
//   - a creation is sent at most once, so two stored links for one creation are an error of the
//     service;
//   - a request that is not sent, because too many requests are in flight or the service cannot be
//     reached, counts as a failure.
//
// The package does not use the load generator vegeta, for two reasons. First, vegeta starts the
// clock of a request when one of its workers is free, so its latencies omit the wait for a worker.
// This error is called coordinated omission (G. Tene, "How NOT to measure latency"). Second, vegeta
// cannot record an intent before each request.
package loadtest

import (
	"context"
	"time"
)

// Defaults for parameters that are 0. DefaultInFlight is so large that a short stall of the disk or the
// machine leaves no request unsent. In a server, each part of the store has a queue of up to 4,096 creations that
// wait for a commit. DefaultInFlight is smaller, so one load cannot fill a queue.
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

// NewLoad returns a load. Each call of Run has at most inFlight requests in flight at a time; 0 means
// [DefaultInFlight]. The caller closes client.
func NewLoad(client *Client, journal *Journal, inFlight int) *Load {
	return &Load{client: client, journal: journal, inFlight: inFlight}
}

// Run sends requests by the schedule s until s or ctx ends. When ctx ends, Run sends no further request
// and waits for the outcomes of the requests in flight. It adds the results to r.
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
