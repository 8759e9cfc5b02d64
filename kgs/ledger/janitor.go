package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keypool/kgs"
)

// sweeper abandons the batches of dead holders and returns the number of abandoned keys.
type sweeper interface {
	Sweep(ctx context.Context) (abandoned int64, err error)
}

// Janitor is the maintenance loop of a process. It records the heartbeats of the process,
// abandons the batches of dead holders, and ends expired leases. Every process that uses the ledger
// runs one Janitor.
type Janitor struct {
	Ledger  *Ledger
	Holder  string
	Pool    sweeper // a pool that records its batches itself, such as the pool in Redis; nil if there is no such pool
	Logger  *slog.Logger
	Metrics *kgs.Metrics
}

const janitorTimeout = 4 * time.Second

// Run does one round of maintenance every HeartbeatInterval until ctx ends, and then returns
// nil. It fails with ErrReplaced if the ledger was replaced. After other errors it continues: it logs
// the first error of a series, and the success that ends the series.
func (j *Janitor) Run(ctx context.Context) error {
	tick := time.NewTicker(HeartbeatInterval)
	defer tick.Stop()
	failures := kgs.NewFailureLog(j.Logger, "renew the heartbeat and abandon the batches of dead holders")
	for {
		err := j.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrReplaced) {
			return err
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
	renewed := j.Ledger.Renew(ctx, j.Holder)
	if errors.Is(renewed, ErrReplaced) {
		return renewed // do not sweep the pool of the old ledger
	}
	errs := []error{renewed, j.sweep(ctx, j.Ledger)}
	if j.Pool != nil {
		errs = append(errs, j.sweep(ctx, j.Pool))
	}
	// expire is the last step because it may use up the remaining time. Later rounds then end the
	// remaining leases.
	return errors.Join(append(errs, j.expire(ctx))...)
}

func (j *Janitor) sweep(ctx context.Context, s sweeper) error {
	n, err := s.Sweep(ctx)
	if errors.Is(err, kgs.ErrNoEpoch) {
		err = nil // the next epoch abandons everything that the pool has on record
	}
	if n > 0 {
		j.Metrics.CountAbandoned(kgs.ReasonCrash, n)
		j.Logger.Info("abandoned the keys of dead processes", slog.Int64("keys", n))
	}
	return err
}

// expire ends the leases that have expired and counts their numbers.
func (j *Janitor) expire(ctx context.Context) error {
	n, err := j.Ledger.ExpireLeases(ctx)
	j.Metrics.CountAbandoned(kgs.ReasonClient, n)
	return err
}
