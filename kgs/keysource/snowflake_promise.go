package keysource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keypool/kgs"
)

// A promise is the record that a process has a machine id until a given time, the end of the
// promise; see [Snowflake]. The process extends the promise while it runs.
const (
	// promiseAhead is the time from the extension of a promise to its new end. During an outage of
	// the database, Next still makes keys for about 2 to 3 s. The id of a killed process stays
	// occupied for at most promiseAhead.
	promiseAhead = 3 * time.Second
	// promiseLow is the remaining time at which a promise is extended.
	promiseLow = 2 * time.Second
	// promiseDead is a limit of the remaining time. If less time remains, watch considers the holder killed or frozen.
	// A holder that runs extends its promise earlier, at promiseLow.
	promiseDead = time.Second
	// promiseInterval is the interval between checks of the promise. promiseTimeout is the time
	// limit of one check, and of the return of the machine id.
	promiseInterval = 250 * time.Millisecond
	promiseTimeout  = time.Second
	// watchFor is the longest time that Open waits for another holder to extend its promise.
	watchFor      = promiseAhead - promiseDead
	watchInterval = 50 * time.Millisecond
	// clockLimit limits the lag of the clock, which is the time of the last key minus the time of the clock. Above the
	// limit, a process without a configured machine id acquires another machine id.
	clockLimit = time.Second
)

// ErrMachineTaken means that another running process holds the machine id.
var ErrMachineTaken = errors.New("another process has this machine id")

// Open acquires a machine id. If SnowflakeConfig.Machine is negative and no id is free, Open fails.
// If another process has a promise for the configured id, Open watches that promise for up to 2 s.
// If the promise is extended during this time, its holder is running, and Open fails with
// ErrMachineTaken. If the promise is not extended, the holder was killed or is frozen: Open returns
// nil, and Run acquires the id when the promise has ended.
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

// Run extends the promise until ctx ends. If this process has no machine id, or has lost it to another
// process, Run acquires a free id: the configured id, or any id if none is configured. If no id is
// configured and the clock is more than clockLimit behind the last key, Run acquires another id. When
// ctx ends, Run gives the machine id back. After a crash of the process, the id is free within 3 s. Run
// logs failures of the database. It also logs when the clock was set back. It always returns nil.
func (s *Snowflake) Run(ctx context.Context) error {
	tick := time.NewTicker(promiseInterval)
	defer tick.Stop()
	failures := kgs.NewFailureLog(s.cfg.Logger, "extend the machine id")
	for {
		select {
		case <-ctx.Done():
			s.giveBack(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
		}
		if err := s.keep(ctx); ctx.Err() == nil {
			failures.Note(err)
		}
	}
}

// watch fails if another process extends the promise of the configured machine id.
func (s *Snowflake) watch(ctx context.Context) error {
	first, err := s.cfg.Machines.promise(ctx, s.cfg.Machine)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	over := time.After(watchFor)
	for p := first; err == nil; p, err = s.cfg.Machines.promise(ctx, s.cfg.Machine) {
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

// keep extends the promise if it ends within promiseLow. It acquires a machine id if this process
// has none. If the clock is more than clockLimit behind the last key and no id is configured, keep
// acquires another id instead. It does not change the promise for the old id in the database. So
// another process can acquire the old id only after this promise has ended. The numbers of that
// process then have later times than the numbers of this process. Only one call of keep may run at a
// time.
func (s *Snowflake) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	held, next := s.held()
	// Read the clock once, before the call of the database. acquire takes only an id whose promise ended
	// at the time now or earlier. The numbers of the acquired id begin at the time now, so their times are
	// later than the times of the previous holder.
	now := sinceEpoch(s.cfg.now())
	behind := time.Duration(next-now) * time.Millisecond
	replace := held.holder != "" && behind > clockLimit && s.cfg.Machine < 0
	if !replace && held.until-now > promiseLow.Milliseconds() {
		if behind > clockPatience {
			return clockBehind(behind)
		}
		return nil
	}
	until := now + promiseAhead.Milliseconds()
	err := kgs.ErrFenced
	if held.holder != "" && !replace {
		held.until = until
		err = s.cfg.Machines.extend(ctx, held)
	}
	if errors.Is(err, kgs.ErrFenced) {
		old := held.id
		held, err = s.cfg.Machines.acquire(ctx, s.cfg.Machine, now, promise{holder: s.cfg.Holder, until: until})
		switch {
		case err == nil && replace:
			s.cfg.Logger.Warn("the clock is behind the last key; acquired another machine id", slog.Duration("behind", behind),
				slog.Int("old_machine_id", old), slog.Int("machine_id", held.id))
		case err == nil:
			s.cfg.Logger.Info("acquired a machine id", slog.Int("machine_id", held.id))
		}
	}
	s.adopt(held, now, err)
	if err != nil && replace {
		return fmt.Errorf("%w: %w", clockBehind(behind), err)
	}
	return err
}

// held returns the promise and the time of the next number.
func (s *Snowflake) held() (held promise, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.promise, s.next >> sequenceBits
}

// adopt records the result of keep: the promise held, whose numbers begin at the time from, or the error err. If keep
// failed, the previous promise stays valid until its end.
func (s *Snowflake) adopt(held promise, from int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
	if err != nil {
		return
	}
	if held.id != s.promise.id {
		s.next = 0 // the numbers of another id may begin before the last number of the old id
	}
	s.promise = held
	s.next = max(s.next, from<<sequenceBits) // even if the clock is set back, no later number has a time before from
}

// giveBack ends the promise at the first unused millisecond.
func (s *Snowflake) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	s.mu.Lock()
	held, unused := s.promise, s.next>>sequenceBits
	if s.next&(1<<sequenceBits-1) != 0 {
		unused++
	}
	s.promise = promise{} // from now on, take makes no number
	s.mu.Unlock()
	if held.holder == "" {
		return
	}
	held.until = min(held.until, unused)
	if err := s.cfg.Machines.giveBack(ctx, held); err != nil {
		s.cfg.Logger.Warn("could not give back the machine id; it becomes free within 3 s", slog.Any("error", err))
	}
}
