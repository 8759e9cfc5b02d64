package kgs

import (
	"time"
)

// rateWeight is the weight of the newest second in a smoothed rate.
const rateWeight = 0.3

// EWMA measures the rate at which a count grows, as an exponentially weighted moving average.
// It is not safe for concurrent use.
type EWMA struct {
	perSecond float64
	total     int64
	at        time.Time
}

// NewEWMA returns an EWMA that starts with a count of 0 at the time now.
func NewEWMA(now time.Time) EWMA { return EWMA{at: now} }

// Rate returns the average growth of the count per second.
func (m *EWMA) Rate() float64 { return m.perSecond }

// Sample records that the count has the value total at the time now. The weight of a sample is
// proportional to the time since the last sample, so the interval between calls may vary.
func (m *EWMA) Sample(total int64, now time.Time) {
	m.add(total, now, rateWeight*now.Sub(m.at).Seconds())
}

// add includes the growth since the last sample in the average. It limits the weight of this growth to 1.
func (m *EWMA) add(total int64, now time.Time, weight float64) {
	elapsed := now.Sub(m.at).Seconds()
	if elapsed <= 0 {
		return
	}
	m.perSecond += min(1, weight) * (float64(total-m.total)/elapsed - m.perSecond)
	m.total, m.at = total, now
	if m.perSecond < 0.001 { // a rate below 3.6 units per hour counts as 0
		m.perSecond = 0
	}
}

// Meter measures the rate at which a count grows in large steps. It averages over about one window,
// or over the time since the first sample if this time is shorter. It is not safe for concurrent use.
type Meter struct {
	window time.Duration
	began  time.Time
	meter  EWMA
}

// NewMeter returns a meter that starts at its first sample.
func NewMeter(window time.Duration) Meter { return Meter{window: window} }

// Sample records that the count has the value total at the time now.
func (m *Meter) Sample(total int64, now time.Time) {
	if m.began.IsZero() {
		m.began, m.meter = now, EWMA{total: total, at: now}
		return
	}
	span := min(m.window, now.Sub(m.began))
	m.meter.add(total, now, float64(now.Sub(m.meter.at))/float64(max(span, 1)))
}

// Rate returns the average growth of the count per second. It returns 0 until the second sample.
func (m *Meter) Rate() float64 { return m.meter.perSecond }

// Window measures the rate at which a count grew in a recent interval, for example in the last five seconds. The
// size of a window is the length of the interval. If the count did not grow in the interval, the rate is exactly 0.
// Window is not safe for concurrent use.
type Window struct {
	size    time.Duration
	samples []windowSample // oldest first; every sample except the first is younger than size
}

type windowSample struct {
	total int64
	at    time.Time
}

// NewWindow returns a window of the given size. The caller should call Sample several times in each
// interval of this size.
func NewWindow(size time.Duration) Window { return Window{size: size} }

// Sample records that the count has the value total at the time now.
func (w *Window) Sample(total int64, now time.Time) {
	w.samples = append(w.samples, windowSample{total, now})
	for len(w.samples) > 1 && now.Sub(w.samples[1].at) >= w.size {
		w.samples = w.samples[1:]
	}
}

// Rate returns the average growth of the count per second between the first and the last sample in the window. It
// returns 0 until the second sample.
func (w *Window) Rate() float64 {
	if len(w.samples) < 2 {
		return 0
	}
	first, last := w.samples[0], w.samples[len(w.samples)-1]
	elapsed := last.at.Sub(first.at)
	if elapsed <= 0 {
		return 0
	}
	return float64(last.total-first.total) / elapsed.Seconds()
}
