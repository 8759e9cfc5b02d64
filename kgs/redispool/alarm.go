package redispool

import (
	"sync"
	"time"
)

// alarmTime is how long an alarm lasts. A cause that stays raises it again.
const alarmTime = time.Minute

// Alarm is why the pool needs an operator. The pools of one process share it, because the worker notices other causes than the server.
// The zero value is an alarm without a cause. All methods may be called concurrently.
type Alarm struct {
	mu           sync.Mutex
	why          string
	until        time.Time
	foreignUntil time.Time
}

// raise sets the cause.
func (a *Alarm) raise(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why, a.until = why, time.Now().Add(alarmTime)
}

// raiseForeign sets the cause that another database owns the pool.
func (a *Alarm) raiseForeign(why string) {
	a.raise(why)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.foreignUntil = a.until
}

// cause returns the cause of the last minute, or "".
func (a *Alarm) cause() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().After(a.until) {
		return ""
	}
	return a.why
}

// foreign reports whether another database owned the pool within the last minute.
func (a *Alarm) foreign() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.foreignUntil)
}
