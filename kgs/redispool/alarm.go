package redispool

import (
	"sync"
	"time"
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
