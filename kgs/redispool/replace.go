package redispool

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/kgs/ledger"
)

// The workers of a ledger replace each other's epochs repeatedly in two cases: the workers use several pools, or two
// copies of a database use one pool. Each new epoch abandons the keys of a pool. In both cases, the same pools get
// several epochs. Therefore a worker counts the epochs of its list in the last 24 hours (countEpochs), for all pools
// that got several epochs. If this count is below a limit, the worker may replace an epoch of another worker. If the
// count is equal to the limit, the worker may replace the epoch only if the last epoch is at least as old as firstWait.
// The required age doubles with each further epoch, up to maxWait.
//
// A failover or a restart of Redis gives the pool another name (see scripts.go). So the epoch that follows a failover
// or a restart counts only if the pool gets a further epoch under the same name.
const (
	maxEpochs = 4 // limit if the epoch of the pool is older than the epoch of the ledger
	maxSkips  = 2 // limit if the epoch of the pool is newer; smaller, because the ledger also skips numbers in this case

	countEpochs = 24 * time.Hour
	firstWait   = 10 * time.Minute
	maxWait     = time.Hour
)

const (
	// refusedAfter is how long Redis may refuse calls before the alarm is raised. A failover takes less time.
	refusedAfter = 10 * time.Second
	// refusedGap is the longest time between two refused calls of one series. It is longer than restTime.
	refusedGap = 2 * time.Minute
)

// errSeveralPools means that workers replace each other's epochs too often, for one of the two reasons above.
var errSeveralPools = errors.New("the ledger has too many new epochs: its workers use several pools, or several copies of its database use one pool")

// mayReplace returns nil if the worker may open a new epoch now. most is maxEpochs or maxSkips. If the worker must wait,
// mayReplace raises the alarm and returns errSeveralPools.
func (s *Filler) mayReplace(ctx context.Context, most int) error {
	repeated, last, err := s.ledger.RepeatedEpochs(ctx, countEpochs)
	if err != nil || repeated < most {
		return err
	}
	wait := min(firstWait<<min(repeated-most, 10), maxWait)
	if last >= wait {
		return nil
	}
	s.cfg.Pool.cfg.Alarm.raise("another worker opens epochs of this ledger for another pool: use the same REDIS_URL for all programs, " +
		"and another Redis database for each copy of the database")
	return errSeveralPools
}

// claim confirms once every ledger.HeartbeatInterval that this database owns the pool. After a failure, the next
// Prepare tries again.
func (s *Filler) claim(ctx context.Context) error {
	if time.Since(s.claimed) < ledger.HeartbeatInterval {
		return nil
	}
	if err := s.cfg.Pool.Claim(ctx); err != nil {
		s.noteRefusal(err)
		return err
	}
	s.claimed, s.refused = time.Now(), refusal{}
	return nil
}

// noteRefusal records the result of a write by which a worker keeps or opens the pool.
func (s *Filler) noteRefusal(err error) {
	s.refused.note(err, s.cfg.Pool.cfg.Alarm, "Redis refuses to write, so programs cannot take or push keys")
}

// refusal is a series of calls of one kind that Redis refused. The zero value is no series.
type refusal struct {
	since, last time.Time // times of the first and the last call of the series; since is zero if there is none
}

// note records the result of a call. If Redis has refused such calls for refusedAfter, for example because its disk is full,
// note raises the alarm with the text why. Reads may still work, so the dead man's switch may see a full pool. A call
// that succeeds ends the series. A call that Redis did not answer ends it too, because the switch notices that Redis
// does not answer.
func (r *refusal) note(err error, alarm *Alarm, why string) {
	var reply redis.Error
	switch {
	case !errors.As(err, &reply):
		r.since = time.Time{}
		return
	case r.since.IsZero() || time.Since(r.last) > refusedGap:
		r.since = time.Now()
	case time.Since(r.since) >= refusedAfter:
		alarm.raise(why + ": " + reply.Error())
	}
	r.last = time.Now()
}
