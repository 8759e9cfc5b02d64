package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"keypool/shortener"
)

// parts is what a service needs for a store that has several parts: a group commit for each part, so that a part that hangs delays only
// its own links, and the keys of parts that do not answer.
type parts struct {
	placement shortener.Placement // nil if the store has one part
	start     func() *committer   // starts a group commit
	aside     aside

	mu         sync.RWMutex
	committers map[int]*committer
	closed     bool
}

const (
	// noPart is the number of no part.
	noPart = -1
	// maxUnfit is how many keys of parts that answer and do not fit a creation draws. With two parts of equal size, it fails to find
	// a key of the other part once in 65,536 creations.
	maxUnfit = 16
	// maxElsewhere is how many times a creation draws another key because its link was not written.
	maxElsewhere = 3
)

var (
	errNoPart   = errors.New("no part of the store answers")
	errPartDown = errors.New("the part of the store to which the code belongs does not answer")
	// errNoRoom is the error with which a key is settled that cannot be set aside. Such a key counts as lost.
	errNoRoom = errors.New("too many keys are set aside")
)

// of returns the group commit of a part, or nil after close.
func (p *parts) of(part int) *committer {
	p.mu.RLock()
	c := p.committers[part]
	p.mu.RUnlock()
	if c != nil {
		return c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.committers[part] == nil && !p.closed {
		if p.committers == nil {
			p.committers = make(map[int]*committer)
		}
		p.committers[part] = p.start()
	}
	return p.committers[part]
}

// close closes all group commits, as committer.close does, and returns the keys that were set aside to their batches.
func (p *parts) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	var errs []error
	for _, c := range p.committers {
		errs = append(errs, c.close(ctx))
	}
	p.mu.Unlock()
	for _, key := range p.aside.empty() {
		settle(key, shortener.ErrNotWritten)
	}
	return errors.Join(errs...)
}

// draw draws a key for a link and returns the part to which the key belongs. The part answers, and it fits if possible. draw sets other
// keys aside.
func (p *parts) draw(ctx context.Context, keys shortener.Keys, link *shortener.Link, attempt, avoid int) (shortener.Key, int, error) {
	if p.placement == nil {
		key, err := keys.Next(ctx, link.URL, attempt)
		return key, 0, err
	}
	fits, err := p.fitting(link, avoid)
	if err != nil {
		return shortener.Key{}, 0, err
	}
	if key, part, ok := p.aside.take(p.placement, fits); ok {
		return key, part, nil
	}
	for unfit := 0; p.placement.Answers(); {
		key, err := keys.Next(ctx, link.URL, attempt)
		if err != nil {
			return shortener.Key{}, 0, err
		}
		part, answers := p.placement.PartOf(key.Code)
		if answers && (fits(part) || unfit == maxUnfit) {
			return key, part, nil
		}
		if answers {
			unfit++
		}
		p.setAside(part, key)
		if key.Batch == nil {
			attempt++ // the next attempt of a hash has another code
		}
	}
	return shortener.Key{}, 0, errNoPart
}

// fitting returns which parts fit a link. A link whose creation has an idempotency key should be in the part of this key. Otherwise the
// part avoid, in which the link was not written, does not fit. fitting fails with errPartDown if the creation cannot succeed.
func (p *parts) fitting(link *shortener.Link, avoid int) (func(part int) bool, error) {
	if link.Once == nil {
		return func(part int) bool { return part != avoid }, nil
	}
	wanted, answers := p.placement.PartOfRequest(link.Once.Key)
	if !answers {
		return nil, fmt.Errorf("%w: %w", shortener.ErrNotWritten, errPartDown)
	}
	return func(part int) bool { return part == wanted }, nil
}

// setAside keeps a key until its part answers. A key without a batch is on no record, so it is dropped.
func (p *parts) setAside(part int, key shortener.Key) {
	if key.Batch != nil && !p.aside.put(part, key) {
		settle(key, errNoRoom)
	}
}

// elsewhere reports whether a creation whose commit failed with err should draw a key of another part.
func (p *parts) elsewhere(err error) bool {
	return p.placement != nil && errors.Is(err, shortener.ErrNotWritten) && !errors.Is(err, shortener.ErrRefused) &&
		!errors.Is(err, shortener.ErrOtherOrder) && !errors.Is(err, shortener.ErrKeyBusy) && !errors.Is(err, errClosed)
}

// committerOf returns the group commit for a link of a part.
func (s *Service) committerOf(part int, link *shortener.Link) *committer {
	if s.parts.placement == nil {
		return s.committer
	}
	if link.Once != nil {
		if of, _ := s.parts.placement.PartOfRequest(link.Once.Key); of != part {
			return s.committer // the creation concerns two parts
		}
	}
	if c := s.parts.of(part); c != nil {
		return c
	}
	return s.committer // is closed, too
}

// partOf returns the part of an alias. It fails with errPartDown if this part does not answer.
func (s *Service) partOf(alias string) (int, error) {
	if s.parts.placement == nil {
		return 0, nil
	}
	part, answers := s.parts.placement.PartOf(alias)
	if !answers {
		return part, fmt.Errorf("%w: %w", shortener.ErrNotWritten, errPartDown)
	}
	return part, nil
}
