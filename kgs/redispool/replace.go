package redispool

import (
	"context"
	"errors"
	"time"

	"keypool/kgs/ledger"
)

// The workers of a ledger replace each other's epochs again and again in two cases: the workers use several pools, or
// two copies of a database use one pool. Each new epoch abandons the keys of a pool. Therefore the number of epochs of
// a list in 24 hours (countEpochs) has a limit. When the limit is reached, a worker may replace an epoch of another
// worker only if the last epoch is old enough. At the limit, the last epoch must be as old as firstWait. This age
// doubles with each further epoch, up to maxWait.
const (
	maxEpochs = 4 // limit if the epoch of the pool is older than the epoch of the ledger
	maxSkips  = 2 // limit if the epoch of the pool is newer; it is smaller, because the ledger then also skips numbers

	countEpochs = 24 * time.Hour
	firstWait   = 10 * time.Minute
	maxWait     = time.Hour
)

// errSeveralPools means that other workers open epochs of this ledger for another pool.
var errSeveralPools = errors.New("the ledger has too many new epochs: several pools, or copies of one database, are in use at the same time")

// mayReplace returns nil if the worker may open a new epoch now. most is maxEpochs or maxSkips. If the worker must wait,
// mayReplace raises the alarm and returns errSeveralPools.
func (s *Filler) mayReplace(ctx context.Context, most int) error {
	recent, last, err := s.ledger.RecentEpochs(ctx, countEpochs)
	if err != nil || recent < most {
		return err
	}
	wait := min(firstWait<<min(recent-most, 10), maxWait)
	if last >= wait {
		return nil
	}
	s.cfg.Pool.cfg.Alarm.raise("another worker opens epochs of this ledger for another pool: use the same REDIS_URL for all programs, " +
		"and another Redis database for each copy of the database")
	return errSeveralPools
}

// claim confirms once every ledger.HeartbeatInterval that this database owns the pool. After a failure, the next Prepare tries again.
func (s *Filler) claim(ctx context.Context) error {
	if time.Since(s.claimed) < ledger.HeartbeatInterval {
		return nil
	}
	if err := s.cfg.Pool.Claim(ctx); err != nil {
		return err
	}
	s.claimed = time.Now()
	return nil
}
