// Package slots limits how many operations of one kind run at the same time.
//
// An operation occupies a slot while it runs. Each operation belongs to a client, for example to a token or to an IP
// address. The share of a client is the number of slots that its operations may occupy at the same time.
//
// Invariant: the operations of one client never occupy more slots than the share of this client. An operation waits for
// a slot of its client, and then for a slot of the server. In both queues, the first to wait gets the next free slot.
package slots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrBusy reports that the maximum number of operations of one kind is in progress, for all clients or for one client.
var ErrBusy = errors.New("the server handles the maximum number of such requests")

// Slots limits how many operations of one kind a server runs at the same time, in total and for each client. The methods
// may be called concurrently.
type Slots[Client comparable] struct {
	all       chan struct{} // holds a value for each running operation
	perClient int

	mu       sync.Mutex
	byClient map[Client]*clientSlots
}

// clientSlots are the slots of a client that runs an operation or waits for a slot.
type clientSlots struct {
	taken chan struct{} // holds a value for each operation that runs or waits for a slot of the server
	users int           // operations that run or wait
}

// New returns n slots, but at least one slot. The share of a client is half of the slots, rounded down, but
// never less than one slot. So if there are two or more slots, one client cannot occupy all of them.
func New[Client comparable](n int) *Slots[Client] { return NewShared[Client](n, n/2) }

// NewShared is like New, but the share of a client is perClient, and never less than one slot.
func NewShared[Client comparable](n, perClient int) *Slots[Client] {
	return &Slots[Client]{
		all: make(chan struct{}, max(1, n)), perClient: max(1, perClient), byClient: make(map[Client]*clientSlots),
	}
}

// Begin waits up to the given time for a slot for an operation of a client. If no slot becomes free, or if ctx ends
// during the wait, Begin fails with an error that wraps [ErrBusy]. The caller calls end after the operation. An
// operation first waits for a slot of its client, and then for a slot of the server. So the number of operations of a
// client that have a slot of the server, or wait for one, never exceeds the share of the client. Further operations of
// this client do not delay other clients.
func (s *Slots[Client]) Begin(ctx context.Context, client Client, wait time.Duration) (end func(), err error) {
	c := s.join(client)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := occupy(ctx, c.taken); err != nil {
		s.leave(client, c)
		return nil, err
	}
	if err := occupy(ctx, s.all); err != nil {
		<-c.taken
		s.leave(client, c)
		return nil, err
	}
	return func() {
		<-s.all
		<-c.taken
		s.leave(client, c)
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
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

func (s *Slots[Client]) join(client Client) *clientSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byClient[client]
	if c == nil {
		c = &clientSlots{taken: make(chan struct{}, s.perClient)}
		s.byClient[client] = c
	}
	c.users++
	return c
}

func (s *Slots[Client]) leave(client Client, c *clientSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(s.byClient, client)
	}
}
