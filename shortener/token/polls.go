package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Freshness is the time within which every server refuses a revoked token, if the database answers the polls of the server in
// time. Otherwise Notes.Poll gets an error, and Current returns the time up to which the server knows all changes of tokens.
const Freshness = time.Second

// A revocation may follow directly after a poll has read the version. Then the rest of this poll, the time until the next poll
// begins and the next poll itself must take less than Freshness.
const (
	// pollInterval is the time between two polls.
	pollInterval = 400 * time.Millisecond
	// pollPause is the shortest time between the end of a poll and the next poll, which a request with an
	// unknown id or name may cause.
	pollPause = 200 * time.Millisecond
	// pollTimeout is the time limit of a poll. After a poll that took longer, the next one has twice the time, up to
	// maxPollTimeout. So a revocation reaches a server with a slow database late, but it does reach it.
	pollTimeout    = 300 * time.Millisecond
	maxPollTimeout = 8 * pollTimeout
	// unknownWait is the time for which a request with an unknown id or name waits for a poll.
	unknownWait = 2 * time.Second
)

// errLate reports that changes of tokens reached this server later than Freshness.
var errLate = fmt.Errorf("the database answers too slowly: this server may accept a revoked token for longer than %v", Freshness)

// poll is a poll that requests wait for.
type poll struct {
	done chan struct{}
	err  error // readable after done is closed
}

// runPolls polls at each interval, and earlier if a request waits for a poll.
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

// pollOnce polls and answers the requests that waited when it began. It returns how long the poll took.
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

// late returns nil if the tokens in memory are at most Freshness old when a poll ends. Otherwise it returns the error of the
// poll, or errLate if the poll succeeded.
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

// reload reads the version, and all tokens if the version changed. It reads the version first: if a token changes
// between the two queries, the next reload reads the tokens again.
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

// awaitPoll waits until a poll has ended that began after the call. If the poll runs out of time, awaitPoll waits for the next
// one, which has more time. It fails with ErrUnavailable.
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

// signal sends to a channel that has room for one value. If a value waits there already, it suffices.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
