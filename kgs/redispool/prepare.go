package redispool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"keypool/internal/failpoint"
	"keypool/kgs"
	"keypool/kgs/ledger"
)

// Prepare sends a heartbeat to the ledger if one is due. If the pool lost its state, or its epoch differs
// from the epoch of the ledger, Prepare opens a new epoch. The new epoch starts with an empty pool. Prepare
// also confirms at intervals that this database owns the pool (see claim).
//
// Prepare fails with [ErrForeign] if another database owns the pool. The ledger then skips the numbers that this pool
// has received. Prepare fails with errSeveralPools if workers replace each other's epochs too often (see mayReplace).
// In both cases an operator must act.
func (f *Filler) Prepare(ctx context.Context) error {
	if err := f.renew(ctx); err != nil {
		return err
	}
	epoch, err := f.ledger.Epoch(ctx)
	if err != nil {
		return err
	}
	status, err := f.cfg.Pool.Status(ctx)
	switch {
	case errors.Is(err, ErrForeign):
		return errors.Join(err, f.skipForeign(ctx, status.HighWater))
	case errors.Is(err, kgs.ErrNoEpoch):
		return f.reopen(ctx, epoch.Number, status)
	case err != nil:
		f.refused = refusal{} // the series ends, because the dead man's switch detects a pool that cannot be read
		return err
	case status.Epoch < epoch.Number:
		// The pool was not opened for the epoch of the ledger, for one of two reasons. The worker that began the epoch
		// has crashed or has not opened the pool yet. Or a restored ledger began the epoch when it skipped ahead, before
		// it knew the high-water mark of the pool. No other worker may open the pool for the same epoch (see Pool.Open),
		// so this worker begins another epoch.
		f.ledger.Remember(status.HighWater)
		if err := f.mayReplace(ctx, maxEpochs); err != nil {
			return err
		}
		return f.openEpoch(ctx, epoch.Number, status)
	case status.Epoch > epoch.Number:
		if reopened, err := f.reopenIfBehind(ctx, status); err != nil || reopened {
			return err
		}
	case status.Floor > maxTakenOver:
		if reopened, err := f.reopenIfFloorAltered(ctx, status); err != nil || reopened {
			return err
		}
	}
	f.ledger.Remember(status.HighWater)
	f.cfg.Size.Store(status.Keys)
	return f.claim(ctx)
}

// renew sends a heartbeat once every ledger.HeartbeatInterval. After a failure, the next Prepare
// tries again.
func (f *Filler) renew(ctx context.Context) error {
	if time.Since(f.renewed) < ledger.HeartbeatInterval {
		return nil
	}
	if err := f.ledger.Renew(ctx, f.cfg.Holder); err != nil {
		return err
	}
	f.renewed = time.Now()
	return nil
}

// reopen begins an epoch for a pool that lost its state. If another database owned the pool within the last minute,
// reopen fails, because a worker of that database opens the pool within seconds.
func (f *Filler) reopen(ctx context.Context, previous int64, seen Status) error {
	if f.cfg.Pool.cfg.Alarm.foreign() {
		return fmt.Errorf("wait for the worker of the other database: %w", ErrForeign)
	}
	f.ledger.Remember(seen.HighWater)
	return f.openEpoch(ctx, previous, seen)
}

// skipForeign makes the ledger skip the numbers that the pool of another database has received. If the database of the
// ledger is a restored backup of the database that owns the pool, these numbers have been issued. Only this pool records
// them. The ledger must skip them now, because an operator may give the ledger another pool later.
func (f *Filler) skipForeign(ctx context.Context, seen ledger.HighWaterMark) error {
	if seen.ID == f.beyond.ID && maps.Equal(seen.Next, f.beyond.Next) {
		return nil
	}
	if err := f.ledger.SkipBeyond(ctx, seen); err != nil {
		return err
	}
	f.beyond = seen
	return nil
}

// reopenIfBehind begins a new epoch if the epoch of the pool is newer than the epoch of the ledger. It reports whether
// it began an epoch. Prepare reads the epoch of the ledger before the epoch of the pool, so another worker may have begun
// an epoch in between. Therefore reopenIfBehind reads the epoch of the ledger again. If the epoch of the pool is still
// newer, the database of the ledger was restored from an older state, and the ledger would reserve numbers a second time.
// In this case reopenIfBehind begins a new epoch, and the ledger skips ahead: it moves its counters past every number
// whose reservation the rollback may have removed. If the epoch of the pool is above maxTakenOver, no ledger has begun
// this epoch, and reopenIfBehind treats the pool as damaged.
func (f *Filler) reopenIfBehind(ctx context.Context, pool Status) (reopened bool, err error) {
	epoch, err := f.ledger.Epoch(ctx)
	if err != nil || pool.Epoch <= epoch.Number {
		return false, err // if err is nil, another worker began the epoch after Prepare had read the ledger
	}
	f.ledger.Remember(pool.HighWater) // the ledger then repeats no number, even if mayReplace delays the epoch
	if pool.Epoch > maxTakenOver {
		err := f.cfg.Pool.damage(ctx, fmt.Sprintf("the pool is in epoch %d, and the ledger is in epoch %d", pool.Epoch, epoch.Number))
		if err != nil {
			return false, err
		}
		return true, f.openEpoch(ctx, epoch.Number, pool)
	}
	if err := f.mayReplace(ctx, maxSkips); err != nil {
		return false, err
	}
	f.cfg.Logger.Warn("the database of the ledger was rolled back: the epoch of the pool is newer",
		slog.Int64("ledger_epoch", epoch.Number), slog.Int64("pool_epoch", pool.Epoch))
	return true, f.openEpoch(ctx, pool.Epoch, pool)
}

// reopenIfFloorAltered begins a new epoch if the floor of the pool is above the next id of the ledger. It reports whether
// it began an epoch. The caller has checked that the floor is above maxTakenOver. If the floor is also above the next id,
// no ledger has set this floor, and the pool would refuse every push. Therefore reopenIfFloorAltered treats the pool as
// damaged.
//
// Prepare does not call reopenIfFloorAltered for a floor of at most maxTakenOver. Such a floor counts in the high-water
// mark of the pool. If it is above the next id of the ledger, the ledger skips ahead, because it may have been rolled back.
func (f *Filler) reopenIfFloorAltered(ctx context.Context, pool Status) (reopened bool, err error) {
	counters, err := f.ledger.Counters(ctx)
	if err != nil || pool.Floor <= counters.LastID+1 {
		return false, err
	}
	err = f.cfg.Pool.damage(ctx, fmt.Sprintf("the floor is %d, and the last range id of the ledger is %d", pool.Floor, counters.LastID))
	if err != nil {
		return false, err
	}
	return true, f.openEpoch(ctx, pool.Epoch, pool)
}

// openEpoch begins the epoch that follows the given epoch (previous). It abandons the keys of the pool and opens an
// empty pool for the new epoch.
//
// The worker may crash after the ledger has begun the epoch and before the pool is open. The next
// Prepare of any worker detects the crash and begins another epoch. The same happens if the worker
// freezes at this point. The frozen worker may continue later and open the pool for its own epoch,
// which has ended. The pool then stays empty in that epoch, because no worker pushes keys for that epoch.
func (f *Filler) openEpoch(ctx context.Context, previous int64, seen Status) error {
	// The ledger keeps the rows of each epoch for ever. While Redis refuses writes, each attempt would add rows and fail
	// to open the pool. So first check that Redis accepts writes.
	if err := f.cfg.Pool.CheckWrites(ctx, seen.RunID); err != nil {
		f.noteRefusal(err)
		return err
	}
	f.refused = refusal{}
	epoch, opened, err := f.ledger.OpenEpoch(ctx, previous, seen.RunID)
	if err != nil {
		return err
	}
	if !opened {
		return fmt.Errorf("another worker opens epoch %d: %w", epoch, kgs.ErrNoEpoch)
	}
	f.current = nil // the range is abandoned with the old epoch
	failpoint.At("epoch:opened")
	if err := f.cfg.Pool.Open(ctx, epoch, seen.RunID); err != nil {
		return err // the worker that opens the pool for a later epoch counts the abandoned keys
	}
	// If Redis returned to an older snapshot, its list also has keys that servers took after the snapshot. Therefore
	// the size at the last Prepare is the better count of the lost keys. The keys in batches are not lost: their
	// holders use them.
	lost := cmp.Or(f.cfg.Size.Swap(0), seen.Keys)
	f.cfg.Metrics.CountAbandoned(kgs.ReasonEpoch, lost)
	f.cfg.Logger.Info("the pool begins a new epoch", slog.Int64("epoch", epoch), slog.Int64("keys_last_seen", lost))
	return nil
}

// claim confirms that this database owns the pool, once every ledger.HeartbeatInterval. After a failure, the next
// Prepare tries again.
func (f *Filler) claim(ctx context.Context) error {
	if time.Since(f.claimed) < ledger.HeartbeatInterval {
		return nil
	}
	if err := f.cfg.Pool.Claim(ctx); err != nil {
		f.noteRefusal(err)
		return err
	}
	f.claimed, f.refused = time.Now(), refusal{}
	return nil
}

// noteRefusal records the error of a call of Claim or CheckWrites.
func (f *Filler) noteRefusal(err error) {
	f.refused.note(err, f.cfg.Pool.cfg.Alarm, "Redis refuses to write, so programs cannot take or push keys")
}

// If the workers of one ledger use several pools, or if two copies of a database use one pool, the workers replace each
// other's epochs repeatedly. Each new epoch abandons the keys of a pool. The limits below make such epochs rarer.
//
// In both cases, the same pools get several epochs. Therefore a worker counts the epochs of its list that workers began
// within the last 24 hours (countEpochs). It counts only the epochs of pools that got several epochs in this time.
//
//   - If the count is below the limit, the worker may replace an epoch of another worker at once.
//   - If the count is equal to the limit, the worker must wait until the last epoch is as old as firstWait.
//   - Each epoch above the limit doubles this age, up to maxWait.
//
// The ledger identifies a pool by the replication id of Redis, which changes at a failover and at a restart. So the
// epoch that follows a failover or a restart counts only if a further epoch begins under the same replication id.
const (
	maxEpochs = 4 // limit if the epoch of the pool is older than the epoch of the ledger
	maxSkips  = 2 // limit if the epoch of the pool is newer; it is lower, because the ledger then also skips numbers

	countEpochs = 24 * time.Hour
	firstWait   = 10 * time.Minute
	maxWait     = time.Hour
)

// errSeveralPools means that workers replace each other's epochs too often, for one of the two reasons above.
var errSeveralPools = errors.New("the ledger has too many new epochs: its workers use several pools, or several copies of its database use one pool")

// mayReplace returns nil if the worker may open a new epoch now. limit is maxEpochs or maxSkips. If the worker must
// wait, mayReplace raises the alarm and returns errSeveralPools.
func (f *Filler) mayReplace(ctx context.Context, limit int) error {
	repeated, last, err := f.ledger.RepeatedEpochs(ctx, countEpochs)
	if err != nil || repeated < limit {
		return err
	}
	wait := min(firstWait<<min(repeated-limit, 10), maxWait)
	if last >= wait {
		return nil
	}
	f.cfg.Pool.cfg.Alarm.raise("another worker opens epochs of this ledger for another pool: use the same REDIS_URL for all programs, " +
		"and another Redis database for each copy of the database")
	return errSeveralPools
}
