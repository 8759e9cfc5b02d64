package redispool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keypool/internal/failpoint"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
)

// pushChunk is how many codes go to Redis in one push: Redis does nothing else for
// about 3 ms then.
const pushChunk = 10_000

// FillerConfig is what a Filler is made of.
type FillerConfig struct {
	Ledger  *ledger.Ledger
	Pool    *Pool
	Space   *codespace.Space
	Holder  string       // of the ranges under way; no other worker has or had this name
	Length  int          // of the codes
	Close   func() error // ends the connections of Pool
	Logger  *slog.Logger
	Metrics *kgs.Metrics
}

// Filler takes ranges from the ledger to a Redis pool: reserve, permute, push,
// deliver. Each step is recorded before the next begins, so a crash between any two
// leaves a range that this or another worker goes on with at the very number where
// it stopped.
type Filler struct {
	cfg     FillerConfig
	current *ledger.Reservation // the range under way; nil for none
	next    int64               // the first number of it that is not known to be pushed
	size    int64               // of the pool, at the last look

	renewed time.Time
}

var _ refill.Filler = (*Filler)(nil)

// NewFiller makes a filler with nothing under way; it calls nobody.
func NewFiller(cfg FillerConfig) *Filler { return &Filler{cfg: cfg} }

// Prepare says that this worker is alive, and opens a pool that lost its state, or that is
// of another epoch than the ledger: such a pool is empty then.
func (s *Filler) Prepare(ctx context.Context) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	epoch, err := s.cfg.Ledger.Epoch(ctx)
	if err != nil {
		return err
	}
	status, err := s.cfg.Pool.Status(ctx)
	s.cfg.Ledger.Remember(status.HighWater)
	switch {
	case errors.Is(err, kgs.ErrNoEpoch):
		return s.openEpoch(ctx, epoch.Number, status)
	case err != nil:
		return err
	case status.Epoch < epoch.Number:
		// The worker that began this epoch has yet to open the pool, or crashed before. No
		// other worker opens the pool for the same epoch: see Pool.Open.
		return s.openEpoch(ctx, epoch.Number, status)
	case status.Epoch > epoch.Number:
		if behind, err := s.behind(ctx, status); err != nil || behind {
			return err
		}
	}
	s.size = status.Keys
	return nil
}

// Len is how many keys the pool holds. It fails with ErrNoEpoch for a pool that lost its state.
func (s *Filler) Len(ctx context.Context) (int64, error) {
	status, err := s.cfg.Pool.Status(ctx)
	return status.Keys, err
}

// behind tells whether the ledger, asked after the pool, still does not know of the pool's
// epoch: its database was restored from an older state, and to ship then would give out
// numbers a second time. It begins a new epoch, for which the ledger skips ahead.
func (s *Filler) behind(ctx context.Context, pool Status) (bool, error) {
	epoch, err := s.cfg.Ledger.Epoch(ctx)
	if err != nil || pool.Epoch <= epoch.Number {
		return false, err // the first answer was older than the pool's
	}
	s.cfg.Logger.Warn("the ledger is behind the pool: its database must have come back from an older state",
		slog.Int64("ledger_epoch", epoch.Number), slog.Int64("pool_epoch", pool.Epoch))
	return true, s.openEpoch(ctx, pool.Epoch, pool)
}

// renew says that this worker is alive, once a beatInterval.
func (s *Filler) renew(ctx context.Context) error {
	if time.Since(s.renewed) < ledger.HeartbeatInterval {
		return nil
	}
	s.renewed = time.Now()
	return s.cfg.Ledger.Renew(ctx, s.cfg.Holder)
}

// openEpoch writes off what the pool held and opens it empty, for the epoch that
// follows the epoch after. A crash after the ledger began the epoch leaves a pool that
// has none or an older one, for the next look to find, which begins another; a stall
// there, and the pool is opened late for an epoch that is over and of use to nobody.
func (s *Filler) openEpoch(ctx context.Context, after int64, seen Status) error {
	epoch, opened, err := s.cfg.Ledger.OpenEpoch(ctx, after, seen.RunID)
	if err != nil {
		return err
	}
	if !opened {
		return fmt.Errorf("another worker opens epoch %d: %w", epoch, kgs.ErrNoEpoch)
	}
	lost := max(s.size, seen.Keys)
	s.cfg.Metrics.CountAbandoned(kgs.ReasonEpoch, lost)
	s.cfg.Logger.Info("the pool begins a new epoch", slog.Int64("epoch", epoch), slog.Int64("keys_last_seen", lost))
	s.current, s.size = nil, 0 // written off together with the old epoch
	failpoint.At("epoch:opened")
	return s.cfg.Pool.Open(ctx, epoch, seen.RunID)
}

// Fill finishes the range under way, or reserves one of up to n numbers, and pushes
// it. ErrFenced says that the range under way is gone: another worker has delivered
// it, or it was written off with its epoch. After ErrNoEpoch it stays, until Prepare has
// opened the pool: a new epoch of the ledger then fences it.
func (s *Filler) Fill(ctx context.Context, n int64) (shipped int64, err error) {
	if failpoint.At("ship:begin") {
		return 0, nil
	}
	if err := s.reserve(ctx, n); err != nil {
		return 0, err
	}
	failpoint.At("ship:reserved")
	shipped, err = s.push(ctx)
	if errors.Is(err, kgs.ErrFenced) {
		s.current = nil
	}
	if err != nil {
		return shipped, err
	}
	failpoint.At("ship:pushed-all")
	err = s.deliver(ctx)
	failpoint.At("ship:forgotten")
	return shipped, err
}

// reserve sees to it that a range is under way. A crash right after leaves it in the
// ledger, not begun; it is adopted.
func (s *Filler) reserve(ctx context.Context, n int64) error {
	if s.current != nil {
		return nil
	}
	r, err := s.cfg.Ledger.Reserve(ctx, s.cfg.Holder, ledger.StateShipping, s.cfg.Length, n)
	if err != nil {
		return err
	}
	s.current, s.next = &r, r.Lo
	return nil
}

// deliver ends the range under way, which is all in the pool. A crash
// before it leaves a range whose mark in the pool says so: whoever adopts it pushes
// nothing and delivers it. A crash before the pool forgets the mark leaves one too
// many there, until the next range.
func (s *Filler) deliver(ctx context.Context) error {
	floor, err := s.cfg.Ledger.Deliver(ctx, *s.current)
	if err != nil {
		return err
	}
	failpoint.At("ship:delivered")
	epoch := s.current.Epoch
	s.current = nil
	err = s.cfg.Pool.Forget(ctx, epoch, floor)
	if errors.Is(err, kgs.ErrFenced) || errors.Is(err, kgs.ErrNoEpoch) {
		return nil // the epoch has ended since, and its marks with it
	}
	return err
}

// push brings the rest of the range under way into the pool. A crash after any chunk
// leaves its mark in the pool, set by the same script: the next to push the range is
// told to go on from there.
func (s *Filler) push(ctx context.Context) (shipped int64, err error) {
	for s.next < s.current.Hi {
		n, err := s.pushOn(ctx)
		shipped += n
		if err != nil {
			return shipped, err
		}
	}
	return shipped, nil
}

// pushOn pushes from the next number on, permuting the next chunk while Redis takes
// the last one. It ends early where the pool turns out to be elsewhere in the range.
func (s *Filler) pushOn(ctx context.Context) (shipped int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	chunks := s.permute(ctx)
	defer func() {
		cancel()
		for range chunks { // until the permuting goroutine has ended
		}
	}()
	for c := range chunks {
		mark, err := s.cfg.Pool.Push(ctx, *s.current, c.numbers.Lo, c.numbers.Hi, c.codes)
		if err != nil {
			return shipped, err
		}
		s.next = mark
		failpoint.At("ship:pushed")
		if mark != c.numbers.Hi {
			return shipped, nil // a push whose reply was lost, or another worker that adopted the range
		}
		shipped += c.numbers.Len()
	}
	return shipped, ctx.Err()
}

// chunk is the codes of one push.
type chunk struct {
	numbers codespace.Range
	codes   []byte
}

// permute yields the codes from the next number on, chunk by chunk, one ahead.
func (s *Filler) permute(ctx context.Context) <-chan chunk {
	r, next := *s.current, s.next // as they are now: next moves on with each push
	chunks := make(chan chunk, 1)
	go func() {
		defer close(chunks)
		for lo := next; lo < r.Hi; lo += pushChunk {
			c := chunk{numbers: codespace.Range{Length: r.Length, Lo: lo, Hi: min(lo+pushChunk, r.Hi)}}
			c.codes = s.cfg.Space.AppendCodes(make([]byte, 0, c.numbers.Len()*int64(r.Length)), c.numbers)
			select {
			case chunks <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return chunks
}

// Release lets others take over what is under way, and closes the connections.
func (s *Filler) Release(ctx context.Context) error {
	err := s.cfg.Ledger.Release(ctx, s.cfg.Holder)
	return errors.Join(err, s.cfg.Close())
}
