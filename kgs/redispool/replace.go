package redispool

import (
	"context"
	"errors"
	"time"

	"keypool/kgs/ledger"
)

// The epochs of a ledger follow one another quickly if its workers use several pools, or if two copies of a database use one pool. Each
// new epoch abandons the keys of a pool. Therefore a worker opens no epoch because of another worker's epoch if the list has at least
// this number of epochs that are younger than a day, unless the last one is old enough.
const (
	maxEpochs = 4 // if the epoch of the pool is older than that of the ledger
	maxSkips  = 2 // if it is newer, because the ledger then also skips numbers

	countEpochs = 24 * time.Hour
	firstWait   = 10 * time.Minute // doubles with each further epoch
	maxWait     = time.Hour
)

// errSeveralPools means that other workers open epochs of this ledger for another pool.
var errSeveralPools = errors.New("the ledger has too many new epochs: several pools, or copies of one database, are in use at the same time")

// mayReplace returns errSeveralPools, and raises the alarm, if the list has had too many epochs to open another one now.
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
