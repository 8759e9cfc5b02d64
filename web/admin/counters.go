package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counters read what the program has counted since it started. A nil member is a count
// that the program does not have. Each function may be called from any goroutine and
// takes well under a millisecond.
type Counters struct {
	Created   func() float64            // links, with keys and with aliases
	Redirects func() float64            // visits that found their link
	Failed    func() float64            // requests answered with a 5xx status
	Refilled  func() float64            // keys that the program's worker pushed to the pool
	Taken     func() map[string]float64 // keys that creations took, by where the keys came from

	// Durations of requests that succeeded, as histograms with native buckets.
	Create, Redirect prometheus.Histogram
}

// counts are the values of Counters at one moment.
type counts struct {
	at                                   time.Time
	created, redirects, failed, refilled *float64 // nil: the program does not count it
	taken                                map[string]float64
	create, redirect                     latencies
}

func (c *Counters) read(now time.Time) counts {
	read := counts{
		at: now, created: value(c.Created), redirects: value(c.Redirects), failed: value(c.Failed), refilled: value(c.Refilled),
		create: readLatencies(c.Create), redirect: readLatencies(c.Redirect),
	}
	if c.Taken != nil {
		read.taken = c.Taken()
	}
	return read
}

func value(count func() float64) *float64 {
	if count == nil {
		return nil
	}
	v := count()
	return &v
}
