package kgs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = time.Second

	// maxUnsettled is the largest number of finished batches that may wait to be settled. A batch is finished when the
	// outcome of each of its codes is known. While more batches wait, the source takes no new batch, so that the supply
	// does not have to record an unlimited number of batches.
	maxUnsettled = 16

	// maxGrowth limits the growth of batches. The source requests at most maxGrowth times the size of the previous
	// batch, or Min keys if that is more. After a stall, many requests arrive at once. Without a limit, the source
	// could then request a batch that empties the pool. With this limit, the batch size still follows a new load within
	// a few batches.
	maxGrowth = 4
)

// run refills the source on demand and settles finished batches, until ctx ends. If a batch cannot be settled, a later
// refill tries again; see refill. While batches wait to be settled, run begins the next refill at most a second after
// the end of the last refill.
func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	retry := time.NewTimer(maxBackoff)
	retry.Stop()
	defer retry.Stop()
	wanted, backoff := s.wanted, firstBackoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-wanted:
		case <-retry.C:
		}
		if err := s.refill(ctx); err != nil {
			// Ignore requests before the timer expires, so that waiting callers do not cause further
			// attempts on a supply that is down.
			wanted = nil
			retry.Reset(backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		wanted, backoff = s.wanted, firstBackoff
		if s.unsettled() > 0 {
			retry.Reset(maxBackoff)
		}
	}
}

// refill takes batches until the source holds two batches. Then it settles finished batches. If a Take got no answer,
// a later refill settles the finished batches instead. At the end, refill wakes the callers that wait in Next.
//
// A supply may consist of several parts, for example the lists of a pool in Redis. If one part is
// down, its batches cannot be settled, but the other parts still give batches. Therefore refill takes
// batches although finished batches wait. If more than maxUnsettled finished batches wait, refill
// settles them first, and fails if it cannot settle all of them.
func (s *Source) refill(ctx context.Context) (err error) {
	s.mu.Lock()
	s.began = time.Now()
	s.mu.Unlock()
	if s.unsettled() > maxUnsettled {
		err = s.settleFinished(ctx)
	}
	for err == nil && ctx.Err() == nil && s.needsBatch() {
		err = s.fetch(ctx)
	}
	if (err == nil || answered(err)) && ctx.Err() == nil { // after the end of ctx, Close settles the batches
		s.late.Note(s.settleFinished(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if opening := !s.everFilled && (errors.Is(err, ErrEmpty) || errors.Is(err, ErrNoEpoch)); !opening && ctx.Err() == nil {
		s.failures.Note(err)
	}
	s.failing, s.began = err, time.Time{}
	close(s.filled)
	s.filled = make(chan struct{})
	return err
}

func (s *Source) needsBatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Load() == nil || s.spare == nil
}

// fetch takes one batch. If the process crashes, the supply keeps the batch on record under the
// name of the holder, which is this process. When the heartbeats of the holder have stopped, the
// holder is declared dead, and the keys of the batch are abandoned.
//
// The end of ctx does not cancel the call of the supply. A cancelled call could still take keys that this source
// never receives. If ctx ends during the call, Close returns the keys that the call took.
func (s *Source) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	start := time.Now()
	b, err := s.cfg.Supply.Take(ctx, s.batchSize())
	if err != nil {
		return err
	}
	s.cfg.Metrics.ObserveRefill(time.Since(start))
	l := newLocalBatch(s, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.everFilled, s.fetched = true, len(b.Codes)
	s.live[l] = struct{}{}
	if s.current.Load() == nil {
		s.install(l)
		// Wake the callers that wait for a key. They need not wait for the spare batch.
		close(s.filled)
		s.filled = make(chan struct{})
		return nil
	}
	s.spare = l
	return nil
}

// batchSize returns the number of keys that last for Hold at the measured rate, within the limits maxGrowth, Min and
// Max. It uses the greater of two rates: the smoothed rate, and the rate at which the last batch was used up. The
// smoothed rate alone reacts late to a burst. The rate of the last batch alone is too low if that batch included a
// quiet moment.
func (s *Source) batchSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate.Sample(s.drawn(), time.Now())
	n := min(max(s.rate.Rate(), s.burst)*s.cfg.Hold.Seconds(), float64(maxGrowth*s.fetched))
	return int(min(max(n, float64(s.cfg.Min)), float64(s.cfg.Max)))
}

// drawn returns how many keys were handed out from batches. The caller holds mu.
func (s *Source) drawn() int64 {
	total := s.drained
	if l := s.current.Load(); l != nil {
		total += int64(len(l.batch.Codes)) - l.left()
	}
	return total
}

// finish queues a batch for settlement; see maxUnsettled for the limit of the queue.
func (s *Source) finish(l *LocalBatch) {
	s.mu.Lock()
	s.finished = append(s.finished, l)
	s.mu.Unlock()
	s.want()
}

// unsettled returns the number of finished batches that wait to be settled.
func (s *Source) unsettled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.finished)
}

// settleFinished settles the batches in the queue. It keeps the batches that it cannot settle, and
// returns their errors.
func (s *Source) settleFinished(ctx context.Context) error {
	s.mu.Lock()
	batches := slices.Clone(s.finished)
	s.mu.Unlock()
	var errs []error
	for _, l := range batches {
		if err := s.settle(ctx, l, nil); err != nil {
			errs = append(errs, err)
			continue
		}
		s.mu.Lock()
		s.finished = slices.DeleteFunc(s.finished, func(other *LocalBatch) bool { return other == l })
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// settle settles the batch l. No creation has a key of l any more, so settle reads l.lost without the mutex of l.
func (s *Source) settle(ctx context.Context, l *LocalBatch, unused []string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.cfg.Supply.Settle(ctx, &l.batch, unused, l.lost); err != nil {
		return fmt.Errorf("settle batch %d: %w", l.batch.ID, err)
	}
	s.cfg.Metrics.CountAbandoned(ReasonLostReply, int64(len(l.lost)))
	s.mu.Lock()
	delete(s.live, l)
	s.mu.Unlock()
	return nil
}

// Close stops the source, returns unused keys to the supply and settles all batches. Call it after
// the last creation has ended. Close blocks until the running refill has ended and the batches are
// settled, or until ctx ends. Each call of the supply takes at most SourceConfig.Timeout. If Close cannot
// settle a batch, the supply keeps the batch on record. The keys of the batch are abandoned when the
// holder is declared dead. If ctx ends before the refill has ended, Close fails and may be called again.
// Otherwise a further call does nothing.
func (s *Source) Close(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	unused := s.retract()
	s.mu.Unlock()
	var errs []error
	for l, codes := range unused {
		if pending := l.open.Load() - int64(len(codes)); pending > 0 {
			errs = append(errs, fmt.Errorf("batch %d: %d keys are still in use", l.batch.ID, pending))
			continue
		}
		if err := s.settle(ctx, l, codes); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// retract empties the source. For each unsettled batch, it returns the keys that no creation uses.
// The caller holds mu.
func (s *Source) retract() map[*LocalBatch][]string {
	unused := make(map[*LocalBatch][]string, len(s.live))
	for l := range s.live {
		total := int64(len(l.batch.Codes))
		unused[l] = slices.Clip(l.batch.Codes[min(l.next.Swap(total), total):]) // clipped, so that an append copies the codes
	}
	for _, k := range s.returned {
		unused[k.Batch] = append(unused[k.Batch], k.Code)
	}
	s.current.Store(nil)
	s.spare, s.returned, s.finished = nil, nil, nil
	s.reused.Store(0)
	return unused
}

// Local returns the number of keys that the source holds in memory.
func (s *Source) Local() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(s.returned))
	for _, l := range []*LocalBatch{s.current.Load(), s.spare} {
		if l != nil {
			n += l.left()
		}
	}
	return n
}

// Taken returns how many keys the source has handed out. A key that is handed out again after
// Returned counts once. After Close, the value has no meaning.
func (s *Source) Taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn()
}

// Failing returns the error of the last refill, or nil if it succeeded.
func (s *Source) Failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}
