package kgs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoKeys says that a generator has nothing to give: a Source when its local batch is empty
// and its supply gives nothing.
var ErrNoKeys = errors.New("no key to give")

// SourceConfig is what a Source is made of. Zero durations mean the defaults.
type SourceConfig struct {
	Supply   Supply
	Min, Max int           // bounds of one batch, in keys
	Hold     time.Duration // how long a batch is to last at the measured rate; 2 s
	Patience time.Duration // the most that Next waits for a refill, and the age from which it does not; 250 ms
	Timeout  time.Duration // the most that one refill may take; 2 s
	Lazy     bool          // take nothing from the supply before the first Next
	Logger   *slog.Logger
	Metrics  *Metrics
}

// Source is the local batch of one server: it hands out keys from memory and
// refills itself in the background long before it is empty. It holds two batches,
// the current one and a spare that was fetched while the current one lasted, so
// there is never more than one refill in flight. A batch is sized by the rate at
// which the last one went, and is at most maxGrowth times as large as the one before.
//
// All methods may be called concurrently.
type Source struct {
	cfg     SourceConfig
	current atomic.Pointer[Lease]
	reused  atomic.Int64 // len(returned), readable without the lock
	wanted  chan struct{}
	stop    context.CancelFunc
	done    chan struct{}
	started time.Time

	mu       sync.Mutex
	spare    *Lease
	live     map[*Lease]struct{} // every lease that was not settled yet
	returned []Key               // handed out and not used: given out again first
	finished []*Lease            // every code has met its fate: to be settled
	drained  int64               // keys handed out from leases that are drained
	rate     meter               // of keys handed out
	burst    float64             // keys per second at which the last lease was drained
	fetched  int                 // keys in the last batch
	filled   chan struct{}       // closed and renewed when a refill ends
	began    time.Time           // when the refill under way began; zero while there is none
	failing  error               // what the last refill failed with
	closed   bool

	everFilled bool // a refill has succeeded
	trouble    trouble
}

var _ Generator = (*Source)(nil)

// NewSource starts a source; Close ends it.
func NewSource(cfg SourceConfig) *Source {
	setDefault(&cfg.Hold, 2*time.Second)
	setDefault(&cfg.Patience, 250*time.Millisecond)
	setDefault(&cfg.Timeout, 2*time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{
		cfg: cfg, stop: cancel, done: make(chan struct{}), started: time.Now(),
		wanted: make(chan struct{}, 1), filled: make(chan struct{}),
		live: make(map[*Lease]struct{}), rate: meter{at: time.Now()},
		trouble: trouble{log: cfg.Logger, what: "the local batch is not refilled"},
	}
	if !cfg.Lazy {
		s.want()
	}
	go s.run(ctx)
	return s
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// Next hands out one key. While a local key is left it neither blocks nor talks
// to anyone; otherwise it waits for a refill under way, as long as ctx allows and
// Patience at the most. It does not wait at all once the refill has taken that long, nor
// if the supply failed last time: one that is known to be away, or to hang, costs no
// request any time. Then it fails with ErrNoKeys.
func (s *Source) Next(ctx context.Context, _ string, _ int) (Key, error) {
	if k, ok := s.take(); ok {
		return k, nil
	}
	patience := time.NewTimer(s.cfg.Patience)
	defer patience.Stop()
	for {
		filled, err := s.refillUnderWay()
		if k, ok := s.take(); ok { // one may have ended since the last look
			return k, nil
		}
		if err != nil {
			return Key{}, err
		}
		select {
		case <-filled:
		case <-patience.C:
			return Key{}, fmt.Errorf("%w: the refill takes long", ErrNoKeys)
		case <-ctx.Done():
			return Key{}, fmt.Errorf("%w: %w", ErrNoKeys, ctx.Err())
		}
	}
}

// take hands out a key from memory, if there is one.
func (s *Source) take() (Key, bool) {
	if s.reused.Load() > 0 {
		if k, ok := s.takeReturned(); ok {
			return k, true
		}
	}
	for l := s.current.Load(); l != nil; l = s.advance(l) {
		i := l.next.Add(1) - 1
		if i < int64(len(l.batch.Codes)) {
			return Key{Code: l.batch.Codes[i], Source: l.batch.Source, Lease: l}, true
		}
	}
	return Key{}, false
}

func (s *Source) takeReturned() (Key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.returned)
	if n == 0 || s.closed {
		return Key{}, false
	}
	k := s.returned[n-1]
	s.returned = s.returned[:n-1]
	s.reused.Store(int64(n - 1))
	return k, true
}

// advance puts the spare in the place of the drained lease and asks for a new spare.
func (s *Source) advance(drained *Lease) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() == drained {
		s.drained += int64(len(drained.batch.Codes))
		s.burst = float64(len(drained.batch.Codes)) / max(time.Since(drained.since), time.Millisecond).Seconds()
		s.install(s.spare)
		s.spare = nil
		s.want()
	}
	return s.current.Load()
}

// install makes l, which may be nil, the current lease. The caller holds mu.
func (s *Source) install(l *Lease) {
	if l != nil {
		l.since = time.Now()
	}
	s.current.Store(l)
}

// refillUnderWay gives a channel that is closed when the refill under way ends, or
// ErrNoKeys when there is no point in waiting for it.
func (s *Source) refillUnderWay() (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: the source is closed", ErrNoKeys)
	}
	// A server that has just started waits for the pool to be opened and filled;
	// later an empty or silent supply is a fact, not a matter of moments.
	starting := !s.everFilled && time.Since(s.started) < s.cfg.Patience
	if s.failing != nil && !starting {
		return nil, fmt.Errorf("%w: %w", ErrNoKeys, s.failing)
	}
	if !s.began.IsZero() && time.Since(s.began) >= s.cfg.Patience {
		return nil, fmt.Errorf("%w: the refill takes long", ErrNoKeys)
	}
	s.want()
	return s.filled, nil
}

// want wakes the refill loop; a wish that is pending already is enough.
func (s *Source) want() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// Local is how many keys the source holds in memory.
func (s *Source) Local() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(s.returned))
	for _, l := range []*Lease{s.current.Load(), s.spare} {
		if l != nil {
			n += l.left()
		}
	}
	return n
}

// Rate is how many keys per second were handed out of late.
func (s *Source) Rate() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rate.perSecond
}

// Failing is the error of the last refill, nil when it succeeded.
func (s *Source) Failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}
