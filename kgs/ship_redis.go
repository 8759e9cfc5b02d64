package kgs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
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
	cfg  RedisShipperConfig
	way  *Range // the range under way; nil for none
	next int64  // the first number of it that is not known to be pushed
	size int64  // of the pool, at the last look

	renewed time.Time
}

var _ Shipper = (*RedisShipper)(nil)

// NewRedisShipper makes a shipper with nothing under way; it calls nobody.
func NewRedisShipper(cfg RedisShipperConfig) *RedisShipper { return &RedisShipper{cfg: cfg} }

// Size is how many keys the pool holds. A pool that lost its state, or is of an
// older epoch than the ledger, is opened for a new one first.
func (s *RedisShipper) Size(ctx context.Context) (int64, error) {
	epoch, err := s.cfg.Ledger.Epoch(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.renew(ctx); err != nil {
		return 0, err
	}
	status, err := s.cfg.Pool.Status(ctx)
	switch {
	case errors.Is(err, ErrNoEpoch):
		return 0, s.openEpoch(ctx, epoch.Number, status.RunID)
	case err != nil:
		return 0, err
	case status.Epoch < epoch.Number:
		return 0, s.openEpoch(ctx, epoch.Number, status.RunID)
	case status.Epoch > epoch.Number:
		// To ship now could give out numbers a second time.
		return 0, fmt.Errorf("the pool is of epoch %d and the ledger only knows of %d: was the ledger's database restored from an older state?",
			status.Epoch, epoch.Number)
	}
	s.size = status.Keys
	return status.Keys, nil
}

// renew says that this worker is alive, a few times per HolderLease.
func (s *RedisShipper) renew(ctx context.Context) error {
	if time.Since(s.renewed) < HolderLease/6 {
		return nil
	}
	s.renewed = time.Now()
	return s.cfg.Ledger.Renew(ctx, s.cfg.Holder)
}

// openEpoch writes off what the pool held and opens it empty. A crash after the
// ledger began the epoch leaves a pool of an older one, for the next look to find.
func (s *RedisShipper) openEpoch(ctx context.Context, after int64, run string) error {
	epoch, err := s.cfg.Ledger.OpenEpoch(ctx, after, run)
	if err != nil {
		return err
	}
	if err := s.cfg.Pool.Open(ctx, epoch, run); err != nil {
		return err
	}
	s.way = nil // it was written off together with the epoch it was reserved in
	s.cfg.Metrics.abandoned(ReasonEpoch, s.size)
	s.cfg.Logger.Info("the pool begins a new epoch", slog.Int64("epoch", epoch), slog.Int64("keys_last_seen", s.size))
	s.size = 0
	return nil
}

// Ship finishes the range under way, or reserves one of up to n numbers, and pushes it.
func (s *RedisShipper) Ship(ctx context.Context, n int64) (shipped int64, err error) {
	if s.way == nil {
		// A crash right after leaves the range in the ledger, not begun; it is adopted.
		r, err := s.cfg.Ledger.Reserve(ctx, s.cfg.Holder, RangeShipping, s.cfg.Length, n)
		if err != nil {
			return 0, err
		}
		s.way, s.next = &r, r.Lo
	}
	r := *s.way
	shipped, err = s.push(ctx, r)
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrNoEpoch) {
		s.way = nil // another worker has delivered it, or it went with its epoch
		return shipped, nil
	}
	if err != nil {
		return shipped, err
	}
	// A crash right here leaves a range whose mark in the pool says that all of it is
	// there: whoever adopts it pushes nothing and delivers it.
	floor, err := s.cfg.Ledger.Deliver(ctx, r)
	if err != nil {
		return shipped, err
	}
	s.way = nil
	// A crash before this leaves a mark too many in the pool, until the next range.
	return shipped, s.cfg.Pool.Forget(ctx, r.Epoch, floor)
}

// push brings the rest of r into the pool. A crash after any chunk leaves its mark in
// the pool, set by the same script: the next to push r is told to go on from there.
func (s *RedisShipper) push(ctx context.Context, r Range) (shipped int64, err error) {
	for s.next < r.Hi {
		n, err := s.pushFrom(ctx, r, s.next)
		shipped += n
		if err != nil {
			return shipped, err
		}
	}
	return shipped, nil
}

// pushFrom pushes r from the number lo on, permuting the next chunk while Redis takes
// the last one. It ends early where the pool turns out to be elsewhere in the range.
func (s *RedisShipper) pushFrom(ctx context.Context, r Range, lo int64) (shipped int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	chunks := s.permute(ctx, r, lo)
	defer func() {
		cancel()
		for range chunks { // until the permuting goroutine has ended
		}
	}()
	for c := range chunks {
		mark, err := s.cfg.Pool.Push(ctx, r, c.run.Lo, c.run.Hi, c.codes)
		if err != nil {
			return shipped, err
		}
		s.next = mark
		if mark != c.run.Hi {
			return shipped, nil // a push whose reply was lost, or another worker that adopted r
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

// permute yields the codes of r from the number next on, chunk by chunk, one ahead.
func (s *RedisShipper) permute(ctx context.Context, r Range, next int64) <-chan chunk {
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
