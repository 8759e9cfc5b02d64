package redispool

import (
	"sync"
	"time"
)

// alarmTime is how long an alarm lasts. A cause that stays raises it again.
const alarmTime = time.Minute

// Alarm is why the pool needs an operator. The pools of one process share it, because the worker notices other causes than the server.
// The zero value is an alarm without a cause. All methods may be called concurrently, and also on nil, which has no cause.
type Alarm struct {
	mu        sync.Mutex
	why       string
	until     time.Time
	foreignAt time.Time
}

// raise sets the cause.
func (a *Alarm) raise(why string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why, a.until = why, time.Now().Add(alarmTime)
}

// cause returns the cause of the last minute, or "".
func (a *Alarm) cause() string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().After(a.until) {
		return ""
	}
	return a.why
}

// raiseForeign raises the alarm because another database owns the pool.
func (a *Alarm) raiseForeign(why string) {
	a.raise(why)
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.foreignAt = time.Now()
}

// foreign reports whether another database owned the pool within the last minute.
func (a *Alarm) foreign() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.foreignAt) < alarmTime && !a.foreignAt.IsZero()
}
