package redispool

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/kgs/ledger"
)

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

const (
	// refusedAfter is how long Redis may refuse calls before the alarm is raised. A failover takes less time, so it
	// raises no alarm.
	refusedAfter = 10 * time.Second
	// refusedGap is the longest time between two refused calls of one series. It is longer than restTime, so that a
	// worker that rests does not end its series of refused pushes.
	refusedGap = 2 * time.Minute
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

// refusal is a series of calls of one kind that Redis refused. The zero value is no series.
type refusal struct {
	since, last time.Time // times of the first and the last call of the series; since is zero if there is none
}

// note records err, the result of a call. If Redis has refused the calls of the series for refusedAfter, for example
// because its disk is full, note raises the alarm with a text that begins with the argument reason. The dead man's
// switch does not detect refusals while reads work and the pool is full. A call that succeeds ends the series. A call that
// Redis does not answer ends the series too, because the dead man's switch detects this case.
func (r *refusal) note(err error, alarm *Alarm, reason string) {
	var reply redis.Error
	switch {
	case !errors.As(err, &reply):
		r.since = time.Time{}
		return
	case r.since.IsZero() || time.Since(r.last) > refusedGap:
		r.since = time.Now()
	case time.Since(r.since) >= refusedAfter:
		alarm.raise(reason + ": " + reply.Error())
	}
	r.last = time.Now()
}
