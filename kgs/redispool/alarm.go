package redispool

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// alarmTime is how long an alarm lasts. While the cause persists, the pool raises the alarm
// repeatedly.
const alarmTime = time.Minute

// Alarm records why a pool needs an operator. If a process has a worker and a server, each of them has its own value of
// type Pool for the same pool, and detects different causes. Both values share one Alarm. The zero value is an alarm
// without a cause. All methods may be called concurrently.
type Alarm struct {
	mu           sync.Mutex
	reason       string
	until        time.Time
	foreignUntil time.Time
}

// raise sets the cause of the alarm. The alarm then lasts for alarmTime.
func (a *Alarm) raise(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason, a.until = reason, time.Now().Add(alarmTime)
}

// raiseForeign is like raise, but it also records that another database owns the pool.
func (a *Alarm) raiseForeign(reason string) {
	a.raise(reason)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.foreignUntil = a.until
}

// cause returns the cause of the last alarm, or "" if no alarm was raised within the last minute.
func (a *Alarm) cause() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().After(a.until) {
		return ""
	}
	return a.reason
}

// foreign reports whether another database owned the pool within the last minute.
func (a *Alarm) foreign() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.foreignUntil)
}

const (
	// refusedAfter is how long Redis may refuse calls before the alarm is raised. A failover takes less time, so it
	// raises no alarm.
	refusedAfter = 10 * time.Second
	// refusedGap is the longest time between two refused calls of one series. It is longer than restTime, so that a
	// worker that rests does not end its series of refused pushes.
	refusedGap = 2 * time.Minute
)

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
