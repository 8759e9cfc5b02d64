package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/shortener"
)

const (
	// maxAttempts is the maximum number of attempts of one creation. A creation with random
	// keys needs far fewer attempts, on average 100 in a space that is 99 % full.
	maxAttempts = 10_000
	// maxSetAside is the maximum number of keys that a creation sets aside or drops before it fails.
	maxSetAside = 1000
	// maxUnfit limits the search for a key of a part that fits (see the method fits). After a creation has set aside maxUnfit
	// keys of parts that answer and do not fit, it accepts a key of any part that answers. With two parts of equal size, this
	// happens to one of 2^16 = 65,536 creations with an idempotency key.
	maxUnfit = 16
	// maxMoves is the maximum number of times that a creation moves to another part because its link was not written.
	maxMoves = 3
	// moveTimeout is the time after which a creation fails instead of moving to another part, because its client would wait too
	// long.
	moveTimeout = 2 * time.Second
)

var (
	errNoPart   = errors.New("no part of the store answers")
	errUnusable = fmt.Errorf("the creation set aside %d keys, most of which belong to parts of the store that do not answer", maxSetAside)
	// errNoFurtherKey reports that the key source had no further key after the first one. This error concerns only one
	// creation. For example, all codes that the key source hash computes for one URL are in use.
	errNoFurtherKey = errors.New("no further key")
	// errRouted is the reason why a key that equals a path of this service is settled as lost. There are so few of these keys that
	// the ledger has no separate reason for them.
	errRouted = errors.New("the code is a path of this service")
)

// WithKey draws keys until the store accepts link with one of them, and sets the code and the source of link. It blocks until the
// link is durable, for at most five seconds. After ctx ends, WithKey begins no further attempt, but completes the attempt that is
// in progress. If the program crashes before a key is settled, the record of the batch remains, and the janitor (see
// docs/glossary.md) abandons the keys of the batch.
func (p *Parts) WithKey(ctx context.Context, link *shortener.Link) error {
	work := p.timeouts.context()
	s := search{parts: p, link: *link, began: work.begun, wanted: noPart}
	for range maxAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		inserted, err := s.try(work)
		if err != nil {
			return err
		}
		if inserted {
			p.Metrics.tried(s.random)
			*link = s.link
			return nil
		}
	}
	return fmt.Errorf("%w: %d keys in a row belong to other links", shortener.ErrKeysExhausted, maxAttempts)
}

// search is the search of one creation for a key with which the store accepts its link.
type search struct {
	parts *Parts
	link  shortener.Link // a copy, because a pointer would move the link of the caller to the heap
	began time.Time

	attempt  int // number of keys that were in conflict, equalled a path or were dropped by put; the argument of the next Keys.Next
	setAside int // keys that were set aside or dropped by put
	unfit    int // keys of a part that answers and does not fit
	moves    int // how many times the creation moved to another part
	random   int // random keys that were inserted or in conflict

	wanted int           // the part of the idempotency key; noPart if there is none
	tried  [maxMoves]int // the parts from which the creation moved
}

// try draws one key, commits the link with this key and settles the key. It returns false if the link needs another key.
func (s *search) try(ctx context.Context) (inserted bool, err error) {
	key, part, err := s.draw(ctx)
	if err != nil {
		return false, fmt.Errorf("draw a key: %w", err)
	}
	s.link.Code, s.link.Source = key.Code, key.Source
	if shortener.IsRoute(key.Code) {
		settle(key, errRouted)
		s.attempt++
		return false, nil
	}
	outcome, err := s.parts.commit(ctx, part, &s.link)
	if s.moves < maxMoves && s.mayMove(part, err) {
		s.tried[s.moves] = part
		s.moves++
		s.put(part, key)
		return false, nil
	}
	settle(key, err)
	if err != nil {
		return false, fmt.Errorf("commit a key: %w", err)
	}
	if key.Source == shortener.SourceRandom {
		s.random++
	}
	if outcome == shortener.Conflict {
		s.parts.Metrics.source(key.Source).conflicts.Inc()
		s.attempt++
	}
	return outcome == shortener.Inserted, nil
}

// mayMove reports whether the link may get a key of another part. The parameter err is the error of its commit in the given
// part, or nil. The link must stay in its part in these cases:
//
//   - the commit succeeded, or the link may be stored although the commit failed;
//   - the commit would fail in each part;
//   - the link has an idempotency key, which belongs to one part;
//   - moveTimeout has passed;
//   - the creation has already tried every part that answers.
func (s *search) mayMove(part int, err error) bool {
	if !errors.Is(err, shortener.ErrNotWritten) || s.link.IdempotencyKey != nil || !concernsPart(err) || time.Since(s.began) >= moveTimeout {
		return false
	}
	return s.parts.Placement.Answers(func(other int) bool { return other != part && !slices.Contains(s.tried[:s.moves], other) })
}

// draw draws a key whose part answers and fits, and returns the key and the part. It sets other keys aside. After maxUnfit keys of
// parts that answer and do not fit, draw accepts a key of any part that answers.
func (s *search) draw(ctx context.Context) (key shortener.Key, part int, err error) {
	placement := s.parts.Placement
	if s.link.IdempotencyKey != nil {
		var answers bool
		if s.wanted, answers = placement.PartOfRequest(s.link.IdempotencyKey.Key); !answers {
			return shortener.Key{}, noPart, errPartDown
		}
	}
	if key, part, ok := s.parts.aside.take(s); ok {
		return key, part, nil
	}
	for s.setAside < maxSetAside {
		if !placement.Answers(nil) {
			return shortener.Key{}, noPart, errNoPart
		}
		if key, err = s.next(ctx); err != nil {
			return shortener.Key{}, noPart, err
		}
		part, answers := placement.PartOf(key.Code)
		if answers && (s.unfit == maxUnfit || s.fits(part)) {
			return key, part, nil
		}
		if answers {
			s.unfit++
		}
		s.put(part, key)
	}
	return shortener.Key{}, noPart, errUnusable
}

// next takes a key from the key source.
func (s *search) next(ctx context.Context) (shortener.Key, error) {
	key, err := s.parts.Keys.Next(ctx, s.link.URL, s.attempt)
	if s.attempt > 0 && errors.Is(err, shortener.ErrKeysExhausted) {
		err = fmt.Errorf("%w at attempt %d: %w", errNoFurtherKey, s.attempt, err)
	}
	if err == nil && !key.Again {
		s.parts.Metrics.source(key.Source).taken.Inc()
	}
	return key, err
}

// put sets a key aside. If the key has no batch, the key is dropped.
func (s *search) put(part int, key shortener.Key) {
	s.setAside++
	s.parts.aside.put(part, key)
	if key.Batch == nil {
		s.attempt++ // the key source hash computes another code for the next attempt
	}
}

// fits reports whether a key of a part fits the link. If the creation has an idempotency key, only the part of the idempotency
// key fits. Otherwise every part fits, except the parts from which the creation moved and the parts that new links avoid.
func (s *search) fits(part int) bool {
	if s.wanted != noPart {
		return part == s.wanted
	}
	return !slices.Contains(s.tried[:s.moves], part) && !s.parts.avoids(part)
}

// settle reports to the batch of the key what happened to the key. The parameter err is the error of the commit with this key,
// or the reason why no creation uses the key.
func settle(k shortener.Key, err error) {
	switch {
	case k.Batch == nil:
	case err == nil: // also after a conflict, because the store then has a row with the code
		k.Batch.Used()
	case errors.Is(err, shortener.ErrNotWritten):
		k.Batch.Returned(k.Code)
	default:
		k.Batch.Lost(k.Code)
	}
}
