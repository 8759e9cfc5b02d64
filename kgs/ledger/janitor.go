package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keypool/kgs"
)

// sweeper writes off what dead holders have on record and tells how many keys that were.
type sweeper interface {
	Sweep(ctx context.Context) (abandoned int64, err error)
}

// Janitor records the heartbeats of a process, sweeps after those that died, and ends
// the leases of clients that have expired. Every process runs one; that several sweep at
// once is harmless.
type Janitor struct {
	Ledger  *Ledger
	Holder  string
	Pool    sweeper // a pool with records of its own; nil for none
	Logger  *slog.Logger
	Metrics *kgs.Metrics
}

const janitorTimeout = 4 * time.Second

// Run works until ctx ends. Errors are logged when they begin and when they end.
func (j *Janitor) Run(ctx context.Context) error {
	tick := time.NewTicker(HeartbeatInterval)
	defer tick.Stop()
	failures := kgs.NewFailureLog(j.Logger, "the books of keys are not kept")
	for {
		err := j.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failures.Note(err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (j *Janitor) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, janitorTimeout)
	defer cancel()
	errs := []error{j.Ledger.Renew(ctx, j.Holder), j.sweep(ctx, j.Ledger)}
	if j.Pool != nil {
		errs = append(errs, j.sweep(ctx, j.Pool))
	}
	// Last: it is the one that can take all the time there is, and then goes on next time.
	return errors.Join(append(errs, j.expire(ctx))...)
}

func (j *Janitor) sweep(ctx context.Context, s sweeper) error {
	n, err := s.Sweep(ctx)
	if errors.Is(err, kgs.ErrNoEpoch) {
		err = nil // what such a pool has on record is written off as a whole
	}
	if n > 0 {
		j.Metrics.CountAbandoned(kgs.ReasonCrash, n)
		j.Logger.Info("keys of a dead process written off", slog.Int64("keys", n))
	}
	return err
}

// expire ends the leases of clients whose time is over.
func (j *Janitor) expire(ctx context.Context) error {
	n, err := j.Ledger.ExpireLeases(ctx)
	j.Metrics.CountKept(n)
	return err
}
