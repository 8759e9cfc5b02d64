package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"keypool/shortener"
)

// Slots limits how many operations of one kind a server runs at the same time. One token may occupy at most half of the
// slots, but at least one slot. So if there are two or more slots, other tokens still get a slot. The methods may be
// called concurrently.
type Slots struct {
	all      chan struct{} // holds a value for each running operation
	perToken int

	mu      sync.Mutex
	byToken map[int64]*tokenSlots
}

// tokenSlots are the slots of a token that runs an operation or waits for a slot.
type tokenSlots struct {
	taken chan struct{} // holds a value for each operation that runs or waits for a slot of the server
	users int           // operations that run or wait
}

// NewSlots returns n slots, but at least one slot.
func NewSlots(n int) *Slots {
	n = max(1, n)
	return &Slots{all: make(chan struct{}, n), perToken: max(1, n/2), byToken: make(map[int64]*tokenSlots)}
}

// Begin waits up to the given time for a slot for an operation of a token. If no slot becomes free, Begin fails with an
// *UnavailableError that wraps [shortener.ErrBusy]. The caller calls end after the operation. An operation first waits
// for a slot of its token, and then for a slot of the server. So only few operations of one token at a time wait for a
// slot of the server. A token with many requests does not delay the requests of other tokens.
func (s *Slots) Begin(ctx context.Context, token int64, wait time.Duration) (end func(), err error) {
	t := s.join(token)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := occupy(ctx, t.taken); err != nil {
		s.leave(token, t)
		return nil, err
	}
	if err := occupy(ctx, s.all); err != nil {
		<-t.taken
		s.leave(token, t)
		return nil, err
	}
	return func() {
		<-s.all
		<-t.taken
		s.leave(token, t)
	}, nil
}

// occupy takes a slot at once if one is free, even if ctx has ended. Otherwise it waits until a slot becomes free or
// ctx ends.
func occupy(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &shortener.UnavailableError{RetryAfter: retryAfter, Err: fmt.Errorf("%w: %w", shortener.ErrBusy, ctx.Err())}
	}
}

func (s *Slots) join(token int64) *tokenSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byToken[token]
	if t == nil {
		t = &tokenSlots{taken: make(chan struct{}, s.perToken)}
		s.byToken[token] = t
	}
	t.users++
	return t
}

func (s *Slots) leave(token int64, t *tokenSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(s.byToken, token)
	}
}
