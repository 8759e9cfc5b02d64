package kgs

import (
	"log/slog"
	"time"
)

// rateWeight is what the newest second weighs in a smoothed rate.
const rateWeight = 0.3

// meter smooths the rate at which a count grows. It is not safe for concurrent use.
type meter struct {
	perSecond float64
	total     int64
	at        time.Time
}

// sample takes what was counted since the last sample into the rate. The weight of a
// sample grows with its length, so it does not matter how regularly it is called.
func (m *meter) sample(total int64, now time.Time) {
	elapsed := now.Sub(m.at).Seconds()
	if elapsed <= 0 {
		return
	}
	m.perSecond += min(1, rateWeight*elapsed) * (float64(total-m.total)/elapsed - m.perSecond)
	m.total, m.at = total, now
	if m.perSecond < 0.001 { // less than four an hour: the tail of a rate that has ended
		m.perSecond = 0
	}
}

// trouble logs when something begins to fail and when that is over, but not each time
// in between. It is not safe for concurrent use.
type trouble struct {
	log  *slog.Logger
	what string // "the pool is not refilled"
	on   bool
}

// note takes the outcome of one more try into account.
func (t *trouble) note(err error) {
	switch {
	case err != nil && !t.on:
		t.log.Warn("trouble", slog.String("what", t.what), slog.Any("error", err))
	case err == nil && t.on:
		t.log.Info("trouble is over", slog.String("what", t.what))
	}
	t.on = err != nil
}
