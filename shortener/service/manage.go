package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
)

// Actor is who manages links: a token, or an operator on the admin listener.
type Actor struct {
	Token int64 // id of the token
	Admin bool  // whether the actor may see and change all links
}

// sees reports whether the actor may see and change l.
func (a Actor) sees(l *shortener.Link) bool { return a.Admin || a.Token != 0 && l.Owner() == a.Token }

// Find returns the link with this code, even if it is a tombstone. It reads the store and not the cache. It fails with
// ErrNotFound if there is no such link, or if the actor may not see the link. It fails with an *UnavailableError if
// the store does not answer. It takes at most 0.9 s.
func (s *Service) Find(ctx context.Context, a Actor, code string) (shortener.Link, error) {
	if !shortener.IsCode(code) {
		return shortener.Link{}, shortener.ErrNotFound
	}
	// A client that leaves does not cancel the query, because pgx closes the connection of a cancelled query.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	link, err := s.store.Lookup(ctx, code)
	switch {
	case errors.Is(err, shortener.ErrNotFound):
		return shortener.Link{}, shortener.ErrNotFound
	case err != nil:
		return shortener.Link{}, unavailable(err)
	case !a.sees(&link):
		return shortener.Link{}, shortener.ErrNotFound
	}
	return link, nil
}

// Change changes the link with this code and returns the new link. It waits up to one second for a slot (see package
// slots). Then it blocks until the change is durable, for at most five seconds. Every other server uses the new link
// within 0.9 s (Freshness) plus the lag of a replica.
//
// If p changes no value, the link stays as it is and keeps its version. Change fails with these errors:
//
//   - ErrNotFound if there is no such link, or if the actor may not see the link;
//   - ErrVersion if the link has a version that p does not permit;
//   - ErrGone if the link is a tombstone;
//   - ErrFixed if the URL of a fixed link would change;
//   - [destination.ErrBlocked] if the new URL leads to a blocked host;
//   - an *InvalidError if a new value is invalid;
//   - ErrRefused if the store rejects the data of the link, which is a fault of the program;
//   - an *UnavailableError in all other cases. If this error wraps slots.ErrBusy, the link has not changed. Otherwise the
//     link may have changed.
func (s *Service) Change(ctx context.Context, a Actor, code string, p shortener.Patch) (shortener.Link, error) {
	return s.change(ctx, a, code, func(l shortener.Link, now time.Time) (shortener.Link, error) {
		if err := requireVersion(&l, p.Versions); err != nil {
			return shortener.Link{}, err
		}
		return p.Apply(l, now, &s.destinations)
	})
}

// Delete turns the link with this code into a tombstone. If the link is already deleted, Delete does not change it,
// whatever its version. Otherwise, if versions is not nil, the link must have one of these versions. Delete fails as
// Change does.
func (s *Service) Delete(ctx context.Context, a Actor, code string, versions []int64) error {
	_, err := s.change(ctx, a, code, func(l shortener.Link, now time.Time) (shortener.Link, error) {
		if !l.DeletedAt.IsZero() {
			return l, nil
		}
		return l.Tombstone(now), requireVersion(&l, versions)
	})
	return err
}

func requireVersion(l *shortener.Link, versions []int64) error {
	if versions != nil && !slices.Contains(versions, l.Version()) {
		return shortener.ErrVersion
	}
	return nil
}

// Delete turns the link with this code into a tombstone. If the link is already deleted, Delete does not change it. If
// there is no link, Delete fails with ErrNotFound. Delete is for programs that have a store but no Service.
func Delete(ctx context.Context, store shortener.Store, code string, now time.Time) error {
	_, err := replace(ctx, store, code, func(l shortener.Link) (shortener.Link, error) { return l.Tombstone(now), nil })
	return err
}

// Erase turns the link with this code into a tombstone and erases its content, for good (see [shortener.Link.Erased]). It
// also erases the content of a link that was deleted before. If there is no link, Erase fails with ErrNotFound. Erase is
// for programs that have a store but no Service.
func Erase(ctx context.Context, store shortener.Store, code string, now time.Time) error {
	_, err := replace(ctx, store, code, func(l shortener.Link) (shortener.Link, error) { return l.Erased(now), nil })
	return err
}

const (
	// changeTimeout is the time limit of a change.
	changeTimeout = 5 * time.Second
	// maxChanges is the maximum number of changes and deletions that a server makes at the same time. Without this limit,
	// the changes of one token could occupy all connections to the database, so that no link is created.
	maxChanges = 4
	// changeWait is the maximum time that a change waits for a slot.
	changeWait = time.Second
)

// change replaces the link with this code by the result of f.
func (s *Service) change(ctx context.Context, a Actor, code string, f func(l shortener.Link, now time.Time) (shortener.Link, error)) (shortener.Link, error) {
	if !shortener.IsCode(code) {
		return shortener.Link{}, shortener.ErrNotFound
	}
	end, err := begin(ctx, s.changes, a, changeWait)
	if err != nil {
		return shortener.Link{}, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	var asked time.Time
	link, err := replace(ctx, s.store, code, func(l shortener.Link) (shortener.Link, error) {
		if !a.sees(&l) {
			return shortener.Link{}, shortener.ErrNotFound
		}
		asked = s.now()
		return f(l, asked)
	})
	switch {
	case err == nil:
		s.cache.put(link, asked)
		return link, nil
	case isRefusal(err):
		return shortener.Link{}, err
	}
	return shortener.Link{}, unavailable(err)
}

// isRefusal reports whether err concerns the request and not the store.
func isRefusal(err error) bool {
	for _, refusal := range []error{shortener.ErrNotFound, shortener.ErrGone, shortener.ErrFixed, shortener.ErrVersion, shortener.ErrRefused} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return isInvalid(err)
}

// isInvalid reports whether err means that a request is not valid: an *InvalidError or [destination.ErrBlocked].
func isInvalid(err error) bool {
	_, invalid := errors.AsType[*shortener.InvalidError](err)
	return invalid || errors.Is(err, destination.ErrBlocked)
}

// maxRaces is the maximum number of times that replace reads the link. After each change by another request, replace
// reads the link again.
const maxRaces = 100

// replace reads the link with this code, calls change, and writes the result to the store. It writes the result even if
// the result equals the link that it read: an earlier request may have written the same change and then failed, because a
// synchronous standby did not confirm the change. The commit of the new write waits for the standby. If the link changes
// between the read and the write, replace begins again.
func replace(ctx context.Context, store shortener.Store, code string, change func(shortener.Link) (shortener.Link, error)) (shortener.Link, error) {
	for range maxRaces {
		old, err := store.Lookup(ctx, code)
		if err != nil {
			return shortener.Link{}, err
		}
		changed, err := change(old)
		if err != nil {
			return shortener.Link{}, err
		}
		if err := store.Change(ctx, old, changed); !errors.Is(err, shortener.ErrChanged) {
			return changed, err
		}
	}
	return shortener.Link{}, fmt.Errorf("%w %d times during this change", shortener.ErrChanged, maxRaces)
}
