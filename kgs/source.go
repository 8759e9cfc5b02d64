package kgs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// SourceConfig configures a Source. A duration of zero means the default.
type SourceConfig struct {
	Supply   Supply
	Min, Max int           // smallest and largest size of a batch, in keys
	Hold     time.Duration // time that a batch should last at the measured rate; default 2 s
	Patience time.Duration // longest time for which Next waits for a refill; default 250 ms
	Timeout  time.Duration // longest duration of one call of the supply; default 2 s
	Lazy     bool          // if true, the source takes no keys before the first Next
	Logger   *slog.Logger
	Metrics  *Metrics
}

// Source holds the local batches of one server in memory: the current batch and a spare batch. It
// hands out the keys of the current batch. When the current batch is empty, the spare batch
// replaces it. A refill then takes a new spare batch from the supply in the background. At most one
// refill runs at a time. The size of a batch follows the measured rate of use. A batch is at most
// maxGrowth times as large as the previous batch, but the source always requests at least Min keys.
//
// All methods are safe for concurrent use.
type Source struct {
	cfg     SourceConfig
	current atomic.Pointer[LocalBatch]
	reused  atomic.Int64 // len(returned), for readers that do not hold mu
	wanted  chan struct{}
	stop    context.CancelFunc
	done    chan struct{}
	started time.Time

	mu       sync.Mutex
	spare    *LocalBatch
	live     map[*LocalBatch]struct{} // all batches that are not settled yet
	returned []Key                    // keys that were handed out but not used; take returns them first
	finished []*LocalBatch            // batches to settle: the outcome of every code is known
	drained  int64                    // number of keys that were handed out from batches that are empty now
	rate     EWMA                     // rate at which keys are handed out from batches; only refills sample it, so it needs no timer
	burst    float64                  // keys per second at which the last batch was used up
	fetched  int                      // keys in the last batch
	filled   chan struct{}            // closed and replaced when a refill ends or installs a current batch
	began    time.Time                // time at which the running refill began; zero if no refill runs
	failing  error                    // error of the last refill; nil after a success
	closed   bool

	everFilled bool       // whether a batch has ever arrived
	failures   FailureLog // logs failed refills
	late       FailureLog // logs failed settlements; only the refill loop uses it
}

var _ Generator = (*Source)(nil)

// NewSource starts a source. The caller must call Close.
func NewSource(cfg SourceConfig) *Source {
	cfg.Hold = cmp.Or(cfg.Hold, 2*time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 250*time.Millisecond)
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{
		cfg: cfg, stop: cancel, done: make(chan struct{}), started: time.Now(),
		wanted: make(chan struct{}, 1), filled: make(chan struct{}),
		live: make(map[*LocalBatch]struct{}), rate: NewEWMA(time.Now()),
		failures: NewFailureLog(cfg.Logger, "refill the local batch"),
		late:     NewFailureLog(cfg.Logger, "settle a local batch"),
	}
	if !cfg.Lazy {
		s.want()
	}
	go s.run(ctx)
	return s
}

// Next returns one key. If the source has a local key, Next neither blocks nor calls the supply.
// Otherwise Next requests a refill and waits until a batch arrives, a refill fails, ctx ends or
// Patience has passed. If a refill is already running, another refill follows it.
//
// Next fails with ErrNoKeys if it gets no key in that time. A supply that is down or hangs must not delay every
// request. Therefore Next fails at once if the last refill failed, or if the running refill has already taken longer
// than Patience. A source that has just started is an exception: until its first batch arrives or Patience has passed
// since NewSource, Next waits even if a refill has failed.
func (s *Source) Next(ctx context.Context, _ string, _ int) (Key, error) {
	if k, ok := s.take(); ok {
		return k, nil
	}
	patience := time.NewTimer(s.cfg.Patience)
	defer patience.Stop()
	for {
		filled, err := s.refillUnderWay()
		if k, ok := s.take(); ok { // a refill may have ended after the first call of take
			return k, nil
		}
		if err != nil {
			return Key{}, err
		}
		select {
		case <-filled:
		case <-patience.C:
			return Key{}, fmt.Errorf("%w: the refill takes too long", ErrNoKeys)
		case <-ctx.Done():
			return Key{}, fmt.Errorf("%w: %w", ErrNoKeys, ctx.Err())
		}
	}
}

// take returns a key from memory, if one is left.
func (s *Source) take() (Key, bool) {
	if s.reused.Load() > 0 {
		if k, ok := s.takeReturned(); ok {
			return k, true
		}
	}
	for l := s.current.Load(); l != nil; l = s.advance(l) {
		i := l.next.Add(1) - 1
		if i < int64(len(l.batch.Codes)) {
			return Key{Code: l.batch.Codes[i], Source: l.batch.Source, Batch: l}, true
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

// advance replaces drained, a current batch that is empty, with the spare batch, and requests a new spare batch. If
// another call has already replaced drained, advance changes nothing. It returns the current batch, or nil if there is
// none.
func (s *Source) advance(drained *LocalBatch) *LocalBatch {
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

// install makes l the current batch. If l is nil, the source has no current batch. The caller holds
// mu.
func (s *Source) install(l *LocalBatch) {
	if l != nil {
		l.since = time.Now()
	}
	s.current.Store(l)
}

// refillUnderWay requests a refill, and returns a channel. The channel is closed when the running refill ends or
// installs a current batch. If no refill runs, the next refill closes the channel in the same way. If the caller should
// not wait, refillUnderWay fails with ErrNoKeys.
func (s *Source) refillUnderWay() (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: the source is closed", ErrNoKeys)
	}
	// When a server starts, a worker may still be opening and filling the pool, so waiting is
	// useful. Later, a refill that follows a failed refill is unlikely to succeed within Patience.
	starting := !s.everFilled && time.Since(s.started) < s.cfg.Patience
	if s.failing != nil && !starting {
		return nil, fmt.Errorf("%w: %w", ErrNoKeys, s.failing)
	}
	if !s.began.IsZero() && time.Since(s.began) >= s.cfg.Patience {
		return nil, fmt.Errorf("%w: the refill takes too long", ErrNoKeys)
	}
	s.want()
	return s.filled, nil
}

// want wakes the refill loop. One pending request is enough, so want never blocks.
func (s *Source) want() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// LocalBatch is one batch that a Source hands out. It counts the codes that are neither used nor lost.
// When the count reaches zero, the Source settles the batch with its supply. Until then, the supply
// keeps a record of the batch. Therefore every key that a crash loses is on record.
//
// For each key that Source.Next returns, the caller makes exactly one call of Used, Returned or Lost.
// These methods do not block and are safe for concurrent use.
type LocalBatch struct {
	batch  Batch
	source *Source
	next   atomic.Int64 // index of the code to hand out next; may exceed the last index
	open   atomic.Int64 // number of codes that are neither used nor lost

	since time.Time // time at which the batch became the current batch; guarded by source.mu

	mu   sync.Mutex
	lost []string
}

func newLocalBatch(s *Source, b *Batch) *LocalBatch {
	l := &LocalBatch{batch: *b, source: s}
	l.open.Store(int64(len(b.Codes)))
	return l
}

// left returns the number of codes that are not yet handed out.
func (l *LocalBatch) left() int64 {
	return max(0, int64(len(l.batch.Codes))-l.next.Load())
}

// Used reports that the link store has a row with a code of this batch.
func (l *LocalBatch) Used() { l.close() }

// Lost reports that it is unknown whether the link store has code. The code is abandoned.
func (l *LocalBatch) Lost(code string) {
	l.mu.Lock()
	l.lost = append(l.lost, code)
	l.mu.Unlock()
	l.close()
}

// Returned reports that the creation stored no link with code. A later creation gets the code. If the source is closed
// before that creation, the code goes back to the supply.
func (l *LocalBatch) Returned(code string) {
	s := l.source
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, Key{Code: code, Source: l.batch.Source, Batch: l, Again: true})
	s.reused.Store(int64(len(s.returned)))
}

func (l *LocalBatch) close() {
	if l.open.Add(-1) == 0 {
		l.source.finish(l)
	}
}
