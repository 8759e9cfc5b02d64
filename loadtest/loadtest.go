// Package loadtest judges a running URL shortener from outside: it makes links at a
// constant rate, writes down before each request what it is about to do and after it
// what was answered, and then reads every link back.
//
// It knows the service only by its HTTP interface, and trusts no figure of the
// service's own.
//
// Vocabulary: a creation is one POST for a URL that is used for nothing else; an
// entry is the record of one creation in the [Journal]; a creation is acknowledged,
// refused, unknown or unsent ([State]); an acknowledged link is lost when its code
// leads nowhere, wrong when it leads elsewhere, and twice when its code was
// acknowledged for another creation too.
//
// Invariants:
//
//   - no request leaves before its intent is in the journal;
//   - a creation is sent at most once: a retry would hide a duplicate;
//   - what the schedule asked for and was not sent counts as a failure.
//
// The pacer is the package's own. That of vegeta measures from the moment one of its
// workers is free and waits silently when none is, which is the coordinated omission
// that must not happen here; and it leaves no room for an intent before each request.
package loadtest

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Defaults for what a Config leaves at zero. So many requests may be under way that a moment
// in which the disk or the machine stands still costs none; a server's queue holds as many.
const (
	DefaultInFlight = 4000
	DefaultTimeout  = 10 * time.Second
)

// NoRoom is the detail of a creation that stayed unsent although the service may be well.
const NoRoom = "too many requests in flight"

// Load makes links and keeps the journal. Its methods may be called concurrently.
type Load struct {
	client   *Client
	journal  *Journal
	inFlight int
}

// NewLoad makes a load of at most inFlight requests at a time, 0 for
// [DefaultInFlight]. Client and journal stay the caller's to close.
func NewLoad(client *Client, journal *Journal, inFlight int) *Load {
	if inFlight == 0 {
		inFlight = DefaultInFlight
	}
	return &Load{client: client, journal: journal, inFlight: inFlight}
}

// Run follows the schedule to its end, or until ctx ends, and returns when the last
// request that was sent has its outcome: ctx ends the schedule, never a request. What
// happened is added to r.
//
// The only error is that the journal cannot be written; then the run ends early.
func (l *Load) Run(ctx context.Context, s Schedule, r *Recorder) error {
	requests := context.WithoutCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(l.inFlight)
	err := s.follow(ctx, func(intended time.Time) error {
		entry, err := l.journal.Intend()
		if err != nil {
			return err
		}
		if g.TryGo(func() error { return l.create(requests, entry, intended, r) }) {
			return nil
		}
		r.add(Unsent, 0)
		return l.journal.Settle(entry.N, Outcome{State: Unsent, Detail: NoRoom})
	})
	return errors.Join(err, g.Wait())
}

// create makes one link. Its latency counts from when it ought to have been sent, so
// that a service that holds up the sender is not rewarded for it.
func (l *Load) create(ctx context.Context, entry Entry, intended time.Time, r *Recorder) error {
	outcome := l.client.Create(ctx, entry.URL)
	r.add(outcome.State, time.Since(intended))
	return l.journal.Settle(entry.N, outcome)
}
