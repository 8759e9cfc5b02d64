package simulate

import (
	"context"
	"errors"
	"sync"
	"time"

	"keypool/kgs"
	"keypool/kgs/refill"
)

// pushChunk is the number of keys that one push sends to Redis.
const pushChunk = 10_000

// counter is the model of the ledger. The ledger reserves ranges of numbers by means of a counter in a database.
type counter struct {
	mu   sync.Mutex
	next int64
}

// reserve returns the next n numbers.
func (l *counter) reserve(n int64) keyRange {
	pause(ledgerTime)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next += n
	return keyRange{l.next - n, l.next}
}

// filler is the model of the filler that pushes ranges of the ledger to Redis. Like the filler of Keypool, the model
// continues with the rest of a range after a failure, and drops a range whose epoch has ended.
type filler struct {
	redis  *redis
	ledger *counter
	caller int
	rest   keyRange // the numbers of the range in progress that are not pushed yet
	epoch  int64    // the epoch of the pool when rest was reserved
}

var _ refill.Filler = (*filler)(nil)

// Prepare begins a new epoch if Redis lost its data.
func (f *filler) Prepare(ctx context.Context) error {
	_, err := f.redis.status(ctx)
	if !errors.Is(err, kgs.ErrNoEpoch) {
		return err
	}
	pause(ledgerTime)
	return f.redis.call(ctx, f.caller, func() time.Duration {
		if !f.redis.open { // otherwise another worker has begun the epoch
			f.redis.begin()
		}
		return callBusy
	})
}

// Len implements [refill.Filler].
func (f *filler) Len(ctx context.Context) (int64, error) {
	s, err := f.redis.status(ctx)
	return s.Keys, err
}

// Fill implements [refill.Filler].
func (f *filler) Fill(ctx context.Context, n int64) (pushed int64, err error) {
	if f.rest.len() == 0 {
		s, err := f.redis.status(ctx)
		if err != nil {
			return 0, err
		}
		f.rest, f.epoch = f.ledger.reserve(n), s.Epoch
	}
	for f.rest.len() > 0 {
		chunk := keyRange{f.rest.lo, min(f.rest.lo+pushChunk, f.rest.hi)}
		if err := f.push(ctx, chunk); err != nil {
			if errors.Is(err, kgs.ErrFenced) {
				f.rest = keyRange{}
			}
			return pushed, err
		}
		f.rest.lo, pushed = chunk.hi, pushed+chunk.len()
	}
	pause(ledgerTime) // the ledger records the delivery
	return pushed, nil
}

// push makes the codes of a chunk and pushes them.
func (f *filler) push(ctx context.Context, chunk keyRange) error {
	pause(time.Duration(chunk.len()) * (keyTime - pushBusy))
	var refused error
	err := f.redis.call(ctx, f.caller, func() time.Duration {
		refused = f.redis.push(f.epoch, chunk)
		return callBusy + time.Duration(chunk.len())*pushBusy
	})
	return errors.Join(err, refused)
}

// Release implements [refill.Filler].
func (f *filler) Release(context.Context) error { return nil }

// program runs a worker and its dead man's switch, like `bin/kgs`, until ctx ends. If the switch ends the program,
// the service manager starts it again.
func (r *run) program(ctx context.Context, caller int) {
	for ctx.Err() == nil {
		program, end := context.WithCancel(ctx)
		supervisor := refill.NewSupervisor(func() refill.Runner {
			return refill.NewWorker(refill.WorkerConfig{
				Filler: &filler{redis: r.redis, ledger: r.ledger, caller: caller}, Capacity: r.cfg.Capacity, Logger: r.log, Metrics: r.metrics,
			})
		}, r.log)
		deadman := r.deadman(r.redis.status, refill.DeadMansSwitchConfig{
			Restart: supervisor.Restart,
			GiveUp:  func(error) { end() },
		})
		var parts sync.WaitGroup
		parts.Go(func() { _ = supervisor.Run(program) }) // Run returns the error of Release, which cannot fail
		parts.Go(func() { _ = deadman.Run(program) })    // Run always returns nil
		parts.Wait()
		end()
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
	}
}

// deadman returns a dead man's switch with the default thresholds of Keypool: 20 % and 10 % of the capacity.
func (r *run) deadman(status func(context.Context) (kgs.PoolStatus, error), cfg refill.DeadMansSwitchConfig) *refill.DeadMansSwitch {
	cfg.Capacity, cfg.Logger, cfg.Metrics = r.cfg.Capacity, r.log, r.metrics
	cfg.RestartBelow, cfg.PageBelow = r.cfg.Capacity/5, r.cfg.Capacity/10
	cfg.Look = func(ctx context.Context) (refill.Observation, error) {
		s, err := status(ctx)
		return refill.Observation{PoolStatus: s}, err
	}
	return refill.NewDeadMansSwitch(cfg)
}
