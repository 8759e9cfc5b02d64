package kgs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// promiseAhead is how far ahead of the clock a machine id is promised: for so long a
	// database may be away, and so long the id of a process that was killed is not free.
	promiseAhead = 3 * time.Second
	// promiseLow is what is left of a promise when it is extended.
	promiseLow = 2 * time.Second
	// promiseDead is what is left of the promise of a holder that has ceased to extend it.
	promiseDead = time.Second
	// promiseInterval is how often it is looked at, and promiseTimeout what that may take.
	promiseInterval = 250 * time.Millisecond
	promiseTimeout  = time.Second
	// watchFor is the most that Open waits for another holder's sign of life.
	watchFor      = promiseAhead - promiseDead
	watchInterval = 50 * time.Millisecond
)

// ErrMachineTaken says that another process, which is alive, has the machine id.
var ErrMachineTaken = errors.New("another process has this machine id")

// Open leases a machine id. When the one that was asked for is promised to somebody else,
// it watches for up to 2 s: ErrMachineTaken if the promise is extended, for then its
// holder lives. If not he was killed, or is frozen, and Run waits for the promise to end.
func (s *Snowflake) Open(ctx context.Context) error {
	err := s.keep(ctx)
	if s.cfg.Machine < 0 || !errors.Is(err, errNoMachine) {
		return err
	}
	if err := s.watch(ctx); err != nil {
		return err
	}
	if err := s.keep(ctx); !errors.Is(err, errNoMachine) {
		return err
	}
	return nil
}

// watch fails if somebody extends the promise of the machine id that was asked for.
func (s *Snowflake) watch(ctx context.Context) error {
	first, err := s.machines.promise(ctx, s.cfg.Machine)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	over := time.After(watchFor)
	for p := first; err == nil; p, err = s.machines.promise(ctx, s.cfg.Machine) {
		if p.until > first.until {
			return fmt.Errorf("%w: %s", ErrMachineTaken, p.holder)
		}
		if p.until-sinceEpoch(s.cfg.now()) < promiseDead.Milliseconds() {
			return nil
		}
		select {
		case <-tick.C:
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// Run extends the lease, or gets another one where it was lost, until ctx ends; then it
// gives back what is left. After a crash that is free again within 3 s. A database that is
// away and a clock that was set back are logged, and no error.
func (s *Snowflake) Run(ctx context.Context) error {
	tick := time.NewTicker(promiseInterval)
	defer tick.Stop()
	trouble := trouble{log: s.cfg.Logger, what: "there are no Snowflakes"}
	for {
		select {
		case <-ctx.Done():
			s.giveBack(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
		}
		if err := s.keep(ctx); ctx.Err() == nil {
			trouble.note(err)
		}
	}
}

// keep sees to it that there is a lease, and that it lasts. It is called by one at a time.
func (s *Snowflake) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, promiseTimeout)
	defer cancel()
	lease, next := s.held()
	// Read before the database is asked: a lease begins when its id was found free.
	now := sinceEpoch(s.cfg.now())
	if lease.until-now > promiseLow.Milliseconds() {
		if ahead := time.Duration(next-now) * time.Millisecond; ahead > clockPatience {
			return clockBehind(ahead)
		}
		return nil
	}
	until := now + promiseAhead.Milliseconds()
	err := ErrFenced
	if lease.holder != "" {
		lease.until = until
		err = s.machines.extend(ctx, lease)
	}
	if errors.Is(err, ErrFenced) {
		lease, err = s.machines.lease(ctx, s.cfg.Machine, now, promise{holder: s.cfg.Holder, until: until})
		if err == nil {
			s.cfg.Logger.Info("leased a machine id", slog.Int("machine_id", lease.id))
		}
	}
	s.adopt(lease, now, err)
	return err
}

// held gives the lease and the time of the next number.
func (s *Snowflake) held() (lease promise, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease, s.next >> sequenceBits
}

// adopt takes the outcome of keep into account. A lease that is not extended lasts as long
// as was promised.
func (s *Snowflake) adopt(lease promise, from int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
	if err != nil {
		return
	}
	s.lease = lease
	s.next = max(s.next, from<<sequenceBits) // the clock may be set back behind what it said
}

// giveBack ends the lease at the first millisecond that was not used.
func (s *Snowflake) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, promiseTimeout)
	defer cancel()
	s.mu.Lock()
	lease, unused := s.lease, s.next>>sequenceBits
	if s.next&(1<<sequenceBits-1) != 0 {
		unused++
	}
	s.lease = promise{} // no number is given from here on
	s.mu.Unlock()
	if lease.holder == "" {
		return
	}
	lease.until = min(lease.until, unused)
	if err := s.machines.giveBack(ctx, lease); err != nil {
		s.cfg.Logger.Warn("the machine id could not be given back and is free in some seconds", slog.Any("error", err))
	}
}
