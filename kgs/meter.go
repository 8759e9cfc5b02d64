package kgs

import (
	"time"
)

// rateWeight is what the newest second weighs in a smoothed rate.
const rateWeight = 0.3

// EWMA measures the rate at which a count grows, as an exponentially weighted moving
// average. It is not safe for concurrent use.
type EWMA struct {
	perSecond float64
	total     int64
	at        time.Time
}

// NewEWMA measures from now on.
func NewEWMA(now time.Time) EWMA { return EWMA{at: now} }

// Rate is how much the count grows in a second.
func (m *EWMA) Rate() float64 { return m.perSecond }

// Sample takes what was counted since the last sample into the rate. The weight of a
// sample grows with its length, so it does not matter how regularly it is called.
func (m *EWMA) Sample(total int64, now time.Time) {
	m.add(total, now, rateWeight*now.Sub(m.at).Seconds())
}

// add takes what was counted since the last sample into the rate with a weight of up to 1.
func (m *EWMA) add(total int64, now time.Time, weight float64) {
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
	meter  EWMA
}

// NewMeter makes a meter that begins at its first sample.
func NewMeter(window time.Duration) Meter { return Meter{window: window} }

// Sample says what the count is now.
func (m *Meter) Sample(total int64, now time.Time) {
	if m.began.IsZero() {
		m.began, m.meter = now, EWMA{total: total, at: now}
		return
	}
	span := min(m.window, now.Sub(m.began))
	m.meter.add(total, now, float64(now.Sub(m.meter.at))/float64(max(span, 1)))
}

// Rate is how much the count grows in a second; 0 while there is no telling.
func (m *Meter) Rate() float64 { return m.meter.perSecond }
