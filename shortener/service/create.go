package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/shortener"
)

const (
	// createTimeout is the time limit of one creation with all its attempts.
	createTimeout = 5 * time.Second
	// maxAttempts is the maximum number of attempts of one creation. A creation with random
	// keys needs far fewer attempts, on average 100 in a space that is 99 % full.
	maxAttempts = 10_000
)

// Create creates a link and blocks until the link is durable, for at most five seconds. If
// the alias already has a link to the same URL, Create returns this link, and existing is
// true. This requires that the request has the same expiry as the link or no expiry.
//
// Create fails with an *InvalidError, destination.ErrBlocked, ErrAliasTaken or an *UnavailableError. Any other
// error, such as ErrRefused, is a fault of the program. After ctx ends, Create draws no
// further key. It still waits for a commit that is in progress, because only the outcome of
// the commit shows whether the key is used.
func (s *Service) Create(ctx context.Context, r shortener.Request) (link shortener.Link, existing bool, err error) {
	return s.create(ctx, r, nil)
}

func (s *Service) create(ctx context.Context, r shortener.Request, once *shortener.Once) (link shortener.Link, existing bool, err error) {
	asked := s.now()
	link, err = r.Link(asked, &s.destinations)
	if err != nil {
		return shortener.Link{}, false, err
	}
	link.Once = once
	if r.Alias != nil {
		existing, err = s.createAlias(ctx, &r, &link)
	} else {
		err = s.createKey(ctx, &link)
	}
	if errors.Is(err, shortener.ErrAliasTaken) || errors.Is(err, errRepeated) || errors.Is(err, shortener.ErrKeyBusy) {
		return shortener.Link{}, false, err
	}
	s.readiness.created(err)
	if err != nil {
		return shortener.Link{}, false, unavailable(err)
	}
	link.Once = nil
	if existing {
		s.cache.put(link, asked)
	} else {
		s.cache.add(link, asked)
	}
	return link, existing, nil
}

// errNoFurtherKey reports that the key source had no further key after a conflict. It concerns
// only this creation. For example, all codes that a hash gives for one URL are in use.
var errNoFurtherKey = errors.New("no further key")

// createKey draws keys for link until the store accepts one.
func (s *Service) createKey(ctx context.Context, link *shortener.Link) error {
	work := s.timeouts.context()
	random, elsewhere, avoid := 0, 0, noPart
	for attempt := range maxAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		outcome, part, err := s.tryKey(work, link, attempt, avoid)
		if elsewhere < maxElsewhere && s.parts.elsewhere(err) {
			elsewhere, avoid = elsewhere+1, part
			continue
		}
		if attempt > 0 && errors.Is(err, shortener.ErrKeysExhausted) {
			return fmt.Errorf("%w after %d conflicts: %w", errNoFurtherKey, attempt, err)
		}
		if err != nil {
			return err
		}
		if link.Source == shortener.SourceRandom {
			random++
		}
		if outcome == shortener.Inserted {
			s.metrics.createdWithKey(random)
			return nil
		}
	}
	return fmt.Errorf("%w: %d keys in a row belong to other links", shortener.ErrKeysExhausted, maxAttempts)
}

// errRouted is the error with which tryKey settles a key that equals a path of this service.
// Such a key counts as lost. These keys are too few for a separate reason in the ledger.
var errRouted = errors.New("the code is a path of this service")

// tryKey draws one key, commits link with it and settles the key. It returns the part of the store to which the key belongs. If the program crashes before
// it settles the key, the record of the batch remains, and the janitor abandons its keys.
func (s *Service) tryKey(ctx context.Context, link *shortener.Link, attempt, avoid int) (outcome shortener.Outcome, part int, err error) {
	key, part, err := s.parts.draw(ctx, s.keys, link, attempt, avoid)
	if err != nil {
		return 0, noPart, fmt.Errorf("draw a key: %w", err)
	}
	link.Code, link.Source = key.Code, key.Source
	source := s.metrics.source(key.Source)
	source.taken.Inc()
	if shortener.IsRoute(key.Code) {
		settle(key, errRouted)
		return shortener.Conflict, part, nil
	}
	outcome, err = s.committerOf(part, link).commit(ctx, *link)
	if s.parts.elsewhere(err) {
		s.parts.setAside(part, key)
	} else {
		settle(key, err)
	}
	if err != nil {
		return 0, part, fmt.Errorf("commit a key: %w", err)
	}
	if outcome == shortener.Conflict {
		source.conflicts.Inc()
	}
	return outcome, part, nil
}

// settle reports to the batch what happened to the key. The parameter err is the error of its
// commit.
func settle(k shortener.Key, err error) {
	switch {
	case k.Batch == nil:
	case err == nil: // also after a conflict: another link has the code
		k.Batch.Used()
	case errors.Is(err, shortener.ErrNotWritten):
		k.Batch.Returned(k.Code)
	default:
		k.Batch.Lost(k.Code)
	}
}

// errAliasWithoutRow reports a fault of the store. It must not be reported as a mistake of the
// user.
var errAliasWithoutRow = errors.New("the store reports a conflict but has no row for the alias")

// createAlias inserts link and looks up the owner of the alias only after a conflict. In a
// look-up before the insert, two users could find the same alias free. If the stored link
// satisfies the request, createAlias sets *link to the stored link.
func (s *Service) createAlias(ctx context.Context, r *shortener.Request, link *shortener.Link) (existing bool, err error) {
	var outcome shortener.Outcome
	part, err := s.partOf(link.Code)
	if err == nil {
		outcome, err = s.committerOf(part, link).commit(s.timeouts.context(), *link)
	}
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
		return false, fmt.Errorf("look up the owner of an alias: %w", err)
	}
	if stored.Gone(s.now()) || !r.SatisfiedBy(stored, *link) {
		return false, shortener.ErrAliasTaken
	}
	*link = stored
	return true, nil
}
