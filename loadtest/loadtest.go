// Package loadtest judges a running URL shortener over HTTP alone. It makes links at a
// constant rate, writes each intent to a journal before the request and each outcome after
// it, and then reads every link back. It imports no package of the product and trusts no
// figure that the service reports.
//
// Vocabulary: a creation is one POST for a URL that no other creation uses. An entry is the
// record of one creation in the [Journal]. A creation is acknowledged, refused, unknown or
// unsent ([State]). An acknowledged link is lost when its code leads nowhere, wrong when it
// leads elsewhere, and twice when its code was acknowledged for another creation too.
//
// Invariants:
//
//   - no request is sent before its intent is in the journal;
//   - a creation is sent at most once, because a retry would hide a duplicate;
//   - a request that was due and could not be sent counts as a failure.
//
// The pacer is the package's own. That of vegeta measures from the moment at which one of its
// workers is free and waits silently when none is, which is coordinated omission (G. Tene, "How
// NOT to measure latency"); and it has no place for an intent before each request.
package loadtest

import (
	"cmp"
	"context"
	"time"
)

// Defaults for what a caller leaves at zero. The number of requests in flight is large enough
// that a short stall of the disk or the machine costs none; the queue of a server holds as many.
const (
	DefaultInFlight = 4000
	DefaultTimeout  = 10 * time.Second
)

// NoRoom is the detail of a creation that was not sent, which need not be the fault of the
// service.
const NoRoom = "too many requests in flight"

// Load makes links and keeps the journal. Its methods may be called concurrently.
type Load struct {
	client   *Client
	journal  *Journal
	inFlight int
}

// NewLoad makes a load of at most inFlight requests at a time, 0 for [DefaultInFlight]. The
// caller closes client and journal.
func NewLoad(client *Client, journal *Journal, inFlight int) *Load {
	return &Load{client: client, journal: journal, inFlight: cmp.Or(inFlight, DefaultInFlight)}
}

// Run follows the schedule until its end, or until ctx ends, and returns when the last
// request has its outcome. ctx ends the schedule and no request. The results are added to r.
//
// The only error is that the journal cannot be written. The run then ends early.
func (l *Load) Run(ctx context.Context, s Schedule, r *Recorder) error {
	return pace(ctx, s, l.inFlight, r, func() (request, error) {
		entry, err := l.journal.Intend()
		return &creation{load: l, entry: entry}, err
	})
}

// One makes one link and returns its entry. The error is that the journal cannot be written.
func (l *Load) One(ctx context.Context) (Entry, error) {
	entry, err := l.journal.Intend()
	if err != nil {
		return entry, err
	}
	c := &creation{load: l, entry: entry}
	err = c.settle(c.send(ctx))
	return c.entry, err
}

// creation is one request of a load.
type creation struct {
	load  *Load
	entry Entry
}

func (c *creation) send(ctx context.Context) State {
	c.entry.Outcome = c.load.client.Create(ctx, c.entry.URL)
	return c.entry.State
}

func (c *creation) settle(state State) error {
	if state == Unsent && c.entry.State == Intended {
		c.entry.Outcome = Outcome{State: Unsent, Detail: NoRoom}
	}
	return c.load.journal.Settle(c.entry.N, c.entry.Outcome)
}

// Steady makes links on the service at a constant rate, first for as long as warmUp and then
// as s says. The figures are those of s. The findings cover all acknowledged links, and the
// caller judges both.
func Steady(ctx context.Context, load *Load, warmUp time.Duration, s Schedule) (v Verdict, err error) {
	if err := load.Run(ctx, Schedule{Rate: s.Rate, Duration: warmUp}, NewRecorder()); err != nil {
		return v, err
	}
	recorder := NewRecorder()
	if err := load.Run(ctx, s, recorder); err != nil {
		return v, err
	}
	checker := Checker{Client: load.client}
	findings, err := checker.Check(ctx, load.journal.Entries())
	return Verdict{Figures: recorder.Figures(), Findings: findings}, err
}
