package kgs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	rateTick     = time.Second
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = time.Second

	// maxGrowth lets a batch follow a load that has begun within a few batches. What went at
	// once after a stall says nothing of the rate, and must not take a pool along.
	maxGrowth = 4
)

// run refills on demand, settles what is finished and measures the rate, until ctx ends.
func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(rateTick)
	defer tick.Stop()
	retry := time.NewTimer(maxBackoff)
	retry.Stop()
	defer retry.Stop()
	wanted, backoff := s.wanted, firstBackoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sample()
			continue
		case <-wanted:
		case <-retry.C:
		}
		if err := s.refill(ctx); err != nil {
			// Until the timer fires nobody is listened to: many impatient requests
			// must not turn into as many attempts on a supply that is down.
			wanted = nil
			retry.Reset(backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		wanted, backoff = s.wanted, firstBackoff
	}
}

// refill settles finished leases, then takes batches until the source holds two,
// and lets those who wait know how it ended.
func (s *Source) refill(ctx context.Context) error {
	s.mu.Lock()
	s.began = time.Now()
	s.mu.Unlock()
	err := s.settleFinished(ctx)
	for err == nil && s.hungry() {
		err = s.fetch(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if opening := !s.everFilled && (errors.Is(err, ErrEmpty) || errors.Is(err, ErrNoEpoch)); !opening && ctx.Err() == nil {
		s.trouble.note(err)
	}
	s.failing, s.began = err, time.Time{}
	close(s.filled)
	s.filled = make(chan struct{})
	return err
}

func (s *Source) hungry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Load() == nil || s.spare == nil
}

// fetch takes one batch. A crash after the take leaves the batch on record under
// this holder's name, who will not renew it: its keys are swept as abandoned.
func (s *Source) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	start := time.Now()
	b, err := s.cfg.Supply.Take(ctx, s.batchSize())
	if err != nil {
		return err
	}
	s.cfg.Metrics.refilled(time.Since(start))
	l := newLease(s, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.everFilled, s.fetched = true, len(b.Codes)
	s.live[l] = struct{}{}
	if s.current.Load() == nil {
		s.install(l)
		// Waiters need not wait for the spare.
		close(s.filled)
		s.filled = make(chan struct{})
		return nil
	}
	s.spare = l
	return nil
}

// batchSize is how many keys last for Hold at the measured rate. The faster of the
// two measures counts: the smoothed one alone would be late for a sudden burst, the
// burst alone would forget a steady load over one quiet moment.
func (s *Source) batchSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(max(s.rate.perSecond, s.burst)*s.cfg.Hold.Seconds(), float64(maxGrowth*s.fetched))
	return int(min(max(n, float64(s.cfg.Min)), float64(s.cfg.Max)))
}

// sample takes what was handed out since the last sample into the rate.
func (s *Source) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.drained
	if l := s.current.Load(); l != nil {
		total += int64(len(l.batch.Codes)) - l.left()
	}
	s.rate.sample(total, time.Now())
}

// settleFinished closes the books on every lease whose codes have all met their fate.
func (s *Source) settleFinished(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.finished) == 0 {
			s.mu.Unlock()
			return nil
		}
		l := s.finished[0]
		s.mu.Unlock()
		if err := s.settle(ctx, l, nil); err != nil {
			return err
		}
		s.mu.Lock()
		s.finished = s.finished[1:]
		s.mu.Unlock()
	}
}

func (s *Source) settle(ctx context.Context, l *Lease, unused []string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.cfg.Supply.Settle(ctx, l.batch, unused, l.lost); err != nil {
		return fmt.Errorf("settle batch %d: %w", l.batch.ID, err)
	}
	s.cfg.Metrics.abandoned(ReasonLostReply, int64(len(l.lost)))
	s.mu.Lock()
	delete(s.live, l)
	s.mu.Unlock()
	return nil
}

// Close stops handing out, gives unused keys back to the supply and settles the
// rest. It is called after the last creation has ended, and blocks until the
// supply has answered or ctx ends; what could not be given back by then is swept
// as abandoned later, for it is on record. Closing twice is harmless.
func (s *Source) Close(ctx context.Context) error {
	s.stop()
	<-s.done
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

// retract takes every key that nobody got out of reach, lease by lease. The caller holds mu.
func (s *Source) retract() map[*Lease][]string {
	unused := make(map[*Lease][]string, len(s.live))
	for l := range s.live {
		total := int64(len(l.batch.Codes))
		unused[l] = l.batch.Codes[min(l.next.Swap(total), total):]
	}
	for _, k := range s.returned {
		unused[k.Lease] = append(unused[k.Lease][:len(unused[k.Lease]):len(unused[k.Lease])], k.Code)
	}
	s.current.Store(nil)
	s.spare, s.returned, s.finished = nil, nil, nil
	s.reused.Store(0)
	return unused
}
