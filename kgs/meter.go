package kgs

import (
	"log/slog"
	"time"
)

// rateWeight is what the newest second weighs in a smoothed rate.
const rateWeight = 0.3

// meter measures the rate at which a count grows, as an exponentially weighted moving
// average. It is not safe for concurrent use.
type meter struct {
	perSecond float64
	total     int64
	at        time.Time
}

// newEWMA measures from now on.
func newEWMA(now time.Time) meter { return meter{at: now} }

// Rate is how much the count grows in a second.
func (m *meter) Rate() float64 { return m.perSecond }

// sample takes what was counted since the last sample into the rate. The weight of a
// sample grows with its length, so it does not matter how regularly it is called.
func (m *meter) sample(total int64, now time.Time) {
	m.add(total, now, rateWeight*now.Sub(m.at).Seconds())
}

// add takes what was counted since the last sample into the rate with a weight of up to 1.
func (m *meter) add(total int64, now time.Time, weight float64) {
	elapsed := now.Sub(m.at).Seconds()
	if elapsed <= 0 {
		return
	}
	m.perSecond += min(1, weight) * (float64(total-m.total)/elapsed - m.perSecond)
	m.total, m.at = total, now
	if m.perSecond < 0.001 { // less than four an hour: the tail of a rate that has ended
		m.perSecond = 0
	}
}

// Meter measures the rate at which a count grows that does so in jumps. It averages
// over about a window, and over all of its life while that is shorter. It is not safe
// for concurrent use.
type Meter struct {
	window time.Duration
	began  time.Time
	meter  meter
}

// NewMeter makes a meter that begins at its first sample.
func NewMeter(window time.Duration) Meter { return Meter{window: window} }

// Sample says what the count is now.
func (m *Meter) Sample(total int64, now time.Time) {
	if m.began.IsZero() {
		m.began, m.meter = now, meter{total: total, at: now}
		return
	}
	span := min(m.window, now.Sub(m.began))
	m.meter.add(total, now, float64(now.Sub(m.meter.at))/float64(max(span, 1)))
}

// Rate is how much the count grows in a second; 0 while there is no telling.
func (m *Meter) Rate() float64 { return m.meter.perSecond }

// trouble logs when something begins to fail and when that is over, but not each time
// in between. It is not safe for concurrent use.
type trouble struct {
	log  *slog.Logger
	what string // "the pool is not refilled"
	on   bool
}

// newTrouble makes a log of the failures of what.
func newTrouble(log *slog.Logger, what string) trouble { return trouble{log: log, what: what} }

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
