package kgs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keypool/internal/failpoint"
)

// pushChunk is how many codes go to Redis in one push: Redis does nothing else for
// about 3 ms then.
const pushChunk = 10_000

// RedisShipperConfig is what a RedisShipper is made of.
type RedisShipperConfig struct {
	Ledger  *Ledger
	Pool    *RedisPool
	Space   *Space
	Holder  string       // of the ranges under way; no other worker has or had this name
	Length  int          // of the codes
	Close   func() error // ends the connections of Pool
	Logger  *slog.Logger
	Metrics *Metrics
}

// RedisShipper takes ranges from the ledger to a Redis pool: reserve, permute, push,
// deliver. Each step is recorded before the next begins, so a crash between any two
// leaves a range that this or another worker goes on with at the very number where
// it stopped.
type RedisShipper struct {
	cfg     RedisShipperConfig
	current *Range // the range under way; nil for none
	next    int64  // the first number of it that is not known to be pushed
	size    int64  // of the pool, at the last look

	renewed time.Time
}

var _ Shipper = (*RedisShipper)(nil)

// NewRedisShipper makes a shipper with nothing under way; it calls nobody.
func NewRedisShipper(cfg RedisShipperConfig) *RedisShipper { return &RedisShipper{cfg: cfg} }

// Size is how many keys the pool holds. A pool that lost its state, or is of another
// epoch than the ledger's, is opened first and then empty.
func (s *RedisShipper) Size(ctx context.Context) (int64, error) {
	if err := s.renew(ctx); err != nil {
		return 0, err
	}
	epoch, err := s.cfg.Ledger.Epoch(ctx)
	if err != nil {
		return 0, err
	}
	status, err := s.cfg.Pool.Status(ctx)
	s.cfg.Ledger.Remember(status.Reach)
	switch {
	case errors.Is(err, ErrNoEpoch):
		return 0, s.openEpoch(ctx, epoch.Number, status)
	case err != nil:
		return 0, err
	case status.Epoch < epoch.Number:
		// Whoever began that epoch has yet to tell the pool, or crashed before it could.
		// Nobody does it in his place: see RedisPool.Open.
		return 0, s.openEpoch(ctx, epoch.Number, status)
	case status.Epoch > epoch.Number:
		if behind, err := s.behind(ctx, status); err != nil || behind {
			return 0, err
		}
	}
	s.size = status.Keys
	return status.Keys, nil
}

// behind tells whether the ledger, asked after the pool, still does not know of the pool's
// epoch: its database was restored from an older state, and to ship then would give out
// numbers a second time. It begins a new epoch, for which the ledger jumps ahead.
func (s *RedisShipper) behind(ctx context.Context, pool PoolStatus) (bool, error) {
	epoch, err := s.cfg.Ledger.Epoch(ctx)
	if err != nil || pool.Epoch <= epoch.Number {
		return false, err // the first answer was older than the pool's
	}
	s.cfg.Logger.Warn("the ledger is behind the pool: its database must have come back from an older state",
		slog.Int64("ledger_epoch", epoch.Number), slog.Int64("pool_epoch", pool.Epoch))
	return true, s.openEpoch(ctx, pool.Epoch, pool)
}

// renew says that this worker is alive, once a beatInterval.
func (s *RedisShipper) renew(ctx context.Context) error {
	if time.Since(s.renewed) < beatInterval {
		return nil
	}
	s.renewed = time.Now()
	return s.cfg.Ledger.Renew(ctx, s.cfg.Holder)
}

// openEpoch writes off what the pool held and opens it empty, for the epoch that
// follows the epoch after. A crash after the ledger began the epoch leaves a pool that
// has none or an older one, for the next look to find, which begins another; a stall
// there, and the pool is opened late for an epoch that is over and of use to nobody.
func (s *RedisShipper) openEpoch(ctx context.Context, after int64, seen PoolStatus) error {
	epoch, opened, err := s.cfg.Ledger.OpenEpoch(ctx, after, seen.RunID)
	if err != nil {
		return err
	}
	if !opened {
		return fmt.Errorf("another worker opens epoch %d: %w", epoch, ErrNoEpoch)
	}
	lost := max(s.size, seen.Keys)
	s.cfg.Metrics.abandoned(ReasonEpoch, lost)
	s.cfg.Logger.Info("the pool begins a new epoch", slog.Int64("epoch", epoch), slog.Int64("keys_last_seen", lost))
	s.current, s.size = nil, 0 // written off together with the old epoch
	failpoint.At("epoch:opened")
	return s.cfg.Pool.Open(ctx, epoch, seen.RunID)
}

// Ship finishes the range under way, or reserves one of up to n numbers, and pushes
// it. ErrFenced says that the range under way is gone: another worker has delivered
// it, or it was written off with its epoch. After ErrNoEpoch it stays, until Size has
// opened the pool: a new epoch of the ledger then fences it.
func (s *RedisShipper) Ship(ctx context.Context, n int64) (shipped int64, err error) {
	if failpoint.At("ship:begin") {
		return 0, nil
	}
	if err := s.reserve(ctx, n); err != nil {
		return 0, err
	}
	failpoint.At("ship:reserved")
	shipped, err = s.push(ctx)
	if errors.Is(err, ErrFenced) {
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
func (s *RedisShipper) reserve(ctx context.Context, n int64) error {
	if s.current != nil {
		return nil
	}
	r, err := s.cfg.Ledger.Reserve(ctx, s.cfg.Holder, RangeShipping, s.cfg.Length, n)
	if err != nil {
		return err
	}
	s.current, s.next = &r, r.Lo
	return nil
}

// deliver closes the books on the range under way, which is all in the pool. A crash
// before it leaves a range whose mark in the pool says so: whoever adopts it pushes
// nothing and delivers it. A crash before the pool forgets the mark leaves one too
// many there, until the next range.
func (s *RedisShipper) deliver(ctx context.Context) error {
	floor, err := s.cfg.Ledger.Deliver(ctx, *s.current)
	if err != nil {
		return err
	}
	failpoint.At("ship:delivered")
	epoch := s.current.Epoch
	s.current = nil
	err = s.cfg.Pool.Forget(ctx, epoch, floor)
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrNoEpoch) {
		return nil // the epoch has ended since, and its marks with it
	}
	return err
}

// push brings the rest of the range under way into the pool. A crash after any chunk
// leaves its mark in the pool, set by the same script: the next to push the range is
// told to go on from there.
func (s *RedisShipper) push(ctx context.Context) (shipped int64, err error) {
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
func (s *RedisShipper) pushOn(ctx context.Context) (shipped int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	chunks := s.permute(ctx)
	defer func() {
		cancel()
		for range chunks { // until the permuting goroutine has ended
		}
	}()
	for c := range chunks {
		mark, err := s.cfg.Pool.Push(ctx, *s.current, c.run.Lo, c.run.Hi, c.codes)
		if err != nil {
			return shipped, err
		}
		s.next = mark
		failpoint.At("ship:pushed")
		if mark != c.run.Hi {
			return shipped, nil // a push whose reply was lost, or another worker that adopted the range
		}
		shipped += c.run.Len()
	}
	return shipped, ctx.Err()
}

// chunk is the codes of one push.
type chunk struct {
	run   Run
	codes []byte
}

// permute yields the codes from the next number on, chunk by chunk, one ahead.
func (s *RedisShipper) permute(ctx context.Context) <-chan chunk {
	r, next := *s.current, s.next // as they are now: next moves on with each push
	chunks := make(chan chunk, 1)
	go func() {
		defer close(chunks)
		for lo := next; lo < r.Hi; lo += pushChunk {
			c := chunk{run: Run{Length: r.Length, Lo: lo, Hi: min(lo+pushChunk, r.Hi)}}
			c.codes = s.cfg.Space.AppendCodes(make([]byte, 0, c.run.Len()*int64(r.Length)), c.run)
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
func (s *RedisShipper) Release(ctx context.Context) error {
	err := s.cfg.Ledger.Release(ctx, s.cfg.Holder)
	return errors.Join(err, s.cfg.Close())
}
