package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Freshness is the maximum time from the revocation of a token until a server refuses the token. It is also the
// maximum time from a renewal until a server refuses the old secret. Both limits hold while the database answers the
// polls of the server in time. Otherwise, Notes.Poll gets an error. Registry.Current always returns the time up to
// which the server knows all changes of tokens.
const Freshness = time.Second

// These limits follow from Freshness. In the worst case, a token is revoked directly after a poll has read the version. Then
// three durations add up: the rest of this poll, the time until the next poll begins, and the next poll. Their sum must be
// less than Freshness.
const (
	// pollInterval is the time between two polls.
	pollInterval = 400 * time.Millisecond
	// pollPause is the minimum time between the end of a poll and the next poll. It limits the number of polls, because
	// each request with an unknown id, secret or name demands a poll.
	pollPause = 200 * time.Millisecond
	// pollTimeout is the time limit of a poll. After a poll that ran out of time, the next poll has twice the limit, up to
	// maxPollTimeout. So if the database is slow, a revocation reaches the server late, but it does reach the server.
	pollTimeout    = 300 * time.Millisecond
	maxPollTimeout = 8 * pollTimeout
	// unknownWait is the maximum time for which a request with an unknown id, secret or name waits for a poll.
	unknownWait = 2 * time.Second
)

// errLate reports that a change of a token may take longer than Freshness until it reaches this server.
var errLate = fmt.Errorf("the database answers too slowly: this server may accept a revoked token, or the old secret of a renewed token, for longer than %v", Freshness)

// poll is the result of a poll that requests wait for.
type poll struct {
	done chan struct{}
	err  error // readable after done is closed
}

// runPolls polls once per pollInterval. If a request waits for a poll, runPolls polls earlier.
func (r *Registry) runPolls(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	limit := pollTimeout
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.wanted:
		}
		limit = nextLimit(limit, r.pollOnce(ctx, limit))
		pause.Reset(pollPause)
	}
}

// nextLimit returns the time limit of the poll that follows a poll with the given limit and duration.
func nextLimit(limit, took time.Duration) time.Duration {
	switch {
	case took >= limit:
		return min(2*limit, maxPollTimeout)
	case took < pollTimeout:
		return pollTimeout
	}
	return limit
}

// pollOnce polls, and then wakes the requests that were waiting when the poll began. It returns the duration of the
// poll.
func (r *Registry) pollOnce(ctx context.Context, limit time.Duration) (took time.Duration) {
	r.mu.Lock()
	p := r.next
	r.next = nil
	r.mu.Unlock()
	began := time.Now()
	err := r.reloadWithin(ctx, limit)
	if ctx.Err() == nil {
		r.notes.Poll(r.late(err))
	}
	if err == nil {
		r.read.Store(&began)
	}
	if p != nil {
		p.err = err
		close(p.done)
	}
	return time.Since(began)
}

// late returns nil if a poll ends at most Freshness after the previous successful poll began. If the poll ends later, late
// returns the error of the poll, or errLate if the poll succeeded.
func (r *Registry) late(err error) error {
	if time.Since(r.Current()) <= Freshness {
		return nil
	}
	return cmp.Or(err, errLate)
}

func (r *Registry) reloadWithin(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.reload(ctx)
}

// reload reads the version. If the version has changed, reload then reads all tokens. If a token changes between the two
// queries, the next reload finds another version and reads the tokens again.
func (r *Registry) reload(ctx context.Context) error {
	before := r.tokens.Load()
	version, err := r.store.version(ctx)
	if err != nil || version == before.version {
		return err
	}
	rows, err := r.store.all(ctx)
	if err != nil {
		return err
	}
	after := &snapshot{version: version, byID: make(map[int64]*entry, len(rows)), byName: make(map[string]*entry)}
	for i := range rows {
		row := &rows[i]
		e := &entry{Token: row.Token, digest: row.digest}
		if known := before.byID[row.ID]; known != nil {
			e.uses = known.uses
		} else {
			e.uses = newUses(row.LastUsedAt)
		}
		after.byID[row.ID] = e
		if e.RevokedAt.IsZero() {
			after.byName[e.Name] = e
		}
	}
	r.tokens.Store(after)
	return nil
}

// awaitPoll waits for the end of a poll that begins after the call. If the poll runs out of time, awaitPoll waits for the next
// poll, which may have more time. awaitPoll fails with ErrUnavailable after unknownWait, when ctx ends, or if a poll fails for
// another reason.
func (r *Registry) awaitPoll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, unknownWait)
	defer cancel()
	for {
		err := r.awaitNext(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// awaitNext waits for the end of the next poll, which all callers share.
func (r *Registry) awaitNext(ctx context.Context) error {
	r.mu.Lock()
	if r.next == nil {
		r.next = &poll{done: make(chan struct{})}
	}
	p := r.next
	r.mu.Unlock()
	signal(r.wanted)
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal sends a value to a channel that has room for one. If the channel already contains a value, signal does nothing,
// because one value suffices.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
