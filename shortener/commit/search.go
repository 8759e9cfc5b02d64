package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/shortener"
)

const (
	// maxAttempts is the maximum number of attempts of one creation. A creation with random
	// keys needs far fewer attempts, on average 100 in a space that is 99 % full.
	maxAttempts = 10_000
	// maxSetAside is how many keys one creation sets aside.
	maxSetAside = 1000
	// maxUnfit is how many of these keys may belong to a part that answers and does not fit. With two parts of equal size, a
	// creation fails to find a key of the other part once in 65,536 times.
	maxUnfit = 16
	// maxMoves is how many times a creation moves to another part because its link was not written.
	maxMoves = 3
	// moveTimeout is the time after which a creation does not move any more. Its client would wait too long.
	moveTimeout = 2 * time.Second
)

var (
	errNoPart   = errors.New("no part of the store answers")
	errUnusable = fmt.Errorf("%d keys in a row belong to parts of the store that do not answer", maxSetAside)
	// errNoFurtherKey reports that the key source had no further key after the first one. It concerns
	// only this creation. For example, all codes that a hash gives for one URL are in use.
	errNoFurtherKey = errors.New("no further key")
	// errRouted is the error with which a key is settled that equals a path of this service.
	// Such a key counts as lost. These keys are too few for a separate reason in the ledger.
	errRouted = errors.New("the code is a path of this service")
)

// WithKey draws keys for link until the store accepts one, commits link with it, and sets its code and source. It blocks until the link is durable, for at most
// five seconds. After ctx ends, it draws no further key, but still waits for a commit that is in progress. If the program crashes before
// a key is settled, the record of the batch remains, and the janitor abandons its keys.
func (p *Parts) WithKey(ctx context.Context, link *shortener.Link) error {
	work := p.timeouts.context()
	s := search{parts: p, link: *link, began: work.begun, wanted: noPart, avoid: noPart}
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
	link  shortener.Link // not a pointer, with which the link of the caller would be allocated on the heap
	began time.Time

	attempt  int // of the next key: the conflicts so far, and the keys without a batch that were set aside
	setAside int // keys that were set aside
	unfit    int // those of them whose part answered
	moves    int // to another part
	random   int // random keys with which link was inserted or in conflict

	wanted int // the part of the idempotency key; noPart if there is none
	avoid  int // the part in which the link was not written; noPart if there is none
}

// try draws one key, commits the link with it and settles the key. It returns false if the link needs another key.
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
		s.moves++
		s.avoid = part
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

// mayMove reports whether the link may get a key of another part after its commit failed with err. It may not if it is possibly
// stored, if it would fail in each part, or if its idempotency key binds it to the part.
func (s *search) mayMove(part int, err error) bool {
	if !errors.Is(err, shortener.ErrNotWritten) || s.link.Once != nil || time.Since(s.began) >= moveTimeout {
		return false
	}
	for _, everywhere := range []error{shortener.ErrRefused, shortener.ErrOtherOrder, shortener.ErrKeyBusy, ErrRepeated, errClosed} {
		if errors.Is(err, everywhere) {
			return false
		}
	}
	return s.parts.Placement.Answers(part)
}

// draw draws a key and returns the part to which the key belongs. The part answers, and it fits if possible. draw sets other
// keys aside.
func (s *search) draw(ctx context.Context) (key shortener.Key, part int, err error) {
	placement := s.parts.Placement
	if s.link.Once != nil {
		var answers bool
		if s.wanted, answers = placement.PartOfRequest(s.link.Once.Key); !answers {
			return shortener.Key{}, noPart, errPartDown
		}
	}
	if key, part, ok := s.parts.aside.take(s); ok {
		return key, part, nil
	}
	for s.setAside < maxSetAside {
		if !placement.Answers(noPart) {
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
	if err == nil {
		s.parts.Metrics.source(key.Source).taken.Inc()
	}
	return key, err
}

// put sets a key aside.
func (s *search) put(part int, key shortener.Key) {
	s.setAside++
	s.parts.aside.put(part, key)
	if key.Batch == nil {
		s.attempt++ // the next attempt of a hash has another code
	}
}

// fits reports whether a key of a part fits the link. A link whose creation has an idempotency key should be in the part of this
// key. Otherwise the part in which the link was not written does not fit.
func (s *search) fits(part int) bool {
	if s.wanted != noPart {
		return part == s.wanted
	}
	return part != s.avoid
}
