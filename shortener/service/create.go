package service

import (
	"context"
	"errors"
	"fmt"

	"keypool/shortener"
	"keypool/shortener/commit"
)

// Create creates a link and blocks until the link is durable, for at most five seconds. If the
// alias already has a link that satisfies the request, Create returns this link, and existing
// is true. [shortener.Request.SatisfiedBy] gives the conditions, such as the same URL.
//
// Create fails with an *InvalidError, destination.ErrBlocked, ErrAliasTaken or an *UnavailableError. Any other
// error, such as ErrRefused, is a fault of the program. After ctx ends, Create begins no further attempt. But it
// completes the attempt that is in progress, because only the outcome of the commit shows whether the key is used.
func (s *Service) Create(ctx context.Context, r shortener.Request) (link shortener.Link, existing bool, err error) {
	return s.create(ctx, r, nil)
}

func (s *Service) create(ctx context.Context, r shortener.Request, key *shortener.IdempotencyKey) (link shortener.Link, existing bool, err error) {
	asked := s.now()
	link, err = r.Link(asked, &s.destinations)
	if err != nil {
		return shortener.Link{}, false, err
	}
	link.IdempotencyKey = key
	if r.Alias != nil {
		existing, err = s.createAlias(ctx, &r, &link)
	} else {
		err = s.createKey(ctx, &link)
	}
	if errors.Is(err, shortener.ErrAliasTaken) || errors.Is(err, commit.ErrRepeated) || errors.Is(err, shortener.ErrKeyBusy) {
		return shortener.Link{}, false, err
	}
	s.readiness.created(err)
	if err != nil {
		return shortener.Link{}, false, unavailable(err)
	}
	link.IdempotencyKey = nil
	if existing {
		s.cache.put(link, asked)
	} else {
		s.cache.add(link, asked)
	}
	return link, existing, nil
}

// createKey commits link with a key.
func (s *Service) createKey(ctx context.Context, link *shortener.Link) error {
	err := s.commits.WithKey(ctx, link)
	if err == nil {
		s.metrics.createdByKey.Inc()
	}
	return err
}

// errAliasWithoutRow reports a fault of the store, which is not a mistake of the user.
var errAliasWithoutRow = errors.New("the store reports a conflict but has no row for the alias")

// createAlias inserts link, and looks up the existing link of the alias only after a conflict.
// It makes no look-up before the insert, because two users could then find the same alias
// free. If the stored link satisfies the request, createAlias sets *link to the stored link.
func (s *Service) createAlias(ctx context.Context, r *shortener.Request, link *shortener.Link) (existing bool, err error) {
	outcome, err := s.commits.WithAlias(link)
	if err != nil {
		return false, fmt.Errorf("commit an alias: %w", err)
	}
	if outcome == shortener.Inserted {
		s.metrics.createdByAlias.Inc()
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	stored, err := s.store.Lookup(ctx, link.Code)
	if errors.Is(err, shortener.ErrNotFound) {
		err = errAliasWithoutRow
	}
	if err != nil {
		return false, fmt.Errorf("look up the link of an alias: %w", err)
	}
	if stored.Gone(s.now()) || !r.SatisfiedBy(stored, *link) {
		return false, shortener.ErrAliasTaken
	}
	*link = stored
	return true, nil
}
