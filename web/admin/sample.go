package admin

import (
	"math"
	"time"
)

// Sample is the data of a "sample" event: the program at one moment, as the dashboard
// draws it. An absent member is unknown at that moment or does not exist in this
// program; the "about" event lists the parts that exist.
type Sample struct {
	At int64 `json:"at"` // Unix time in milliseconds; each sample's exceeds the one before

	State       string  `json:"state"`                  // as in Status
	ServingFrom *string `json:"serving_from,omitempty"` // as in Status
	Breaker     *string `json:"breaker,omitempty"`      // as in Status
	Epoch       *int64  `json:"epoch,omitempty"`        // as in Status

	PoolKeys      *int64   `json:"pool_keys,omitempty"`      // as in Status
	LocalKeys     *int64   `json:"local_keys,omitempty"`     // as in Status
	RunwaySeconds *float64 `json:"runway_seconds,omitempty"` // as in Status

	// Counts of this program since the previous sample, divided by the elapsed time.
	CreatedPerSecond   *float64           `json:"created_per_second,omitempty"`   // links, with keys and with aliases
	RedirectsPerSecond *float64           `json:"redirects_per_second,omitempty"` // visits that found their link
	FailedPerSecond    *float64           `json:"failed_per_second,omitempty"`    // requests answered with 5xx
	TakenPerSecond     map[string]float64 `json:"taken_per_second,omitzero"`      // keys, by where the keys came from
	RefilledPerSecond  *float64           `json:"refilled_per_second,omitempty"`  // keys that its worker pushed to the pool

	// Durations in seconds of the requests that ended in the last latencyWindow, with an
	// error of at most 5 %; absent without requests.
	CreateP50   *float64 `json:"create_p50,omitempty"` // of creations, status 201
	CreateP99   *float64 `json:"create_p99,omitempty"`
	RedirectP50 *float64 `json:"redirect_p50,omitempty"` // of redirects
	RedirectP99 *float64 `json:"redirect_p99,omitempty"`
}

const (
	sampleInterval = time.Second
	latencyWindow  = 5 * time.Second // a p99 needs more than the requests of one second
)

// newSample computes a sample from the status and the counts. past holds earlier counts,
// oldest first, back to the start of the latency window; it is not empty.
func newSample(s Status, now counts, past []counts) Sample {
	sample := Sample{
		At: now.at.UnixMilli(), State: s.State, ServingFrom: s.ServingFrom, Breaker: s.Breaker, Epoch: s.Epoch,
		PoolKeys: s.PoolKeys, LocalKeys: s.LocalKeys, RunwaySeconds: s.RunwaySeconds,
	}
	before := past[len(past)-1]
	elapsed := now.at.Sub(before.at).Seconds()
	sample.CreatedPerSecond = growth(before.created, now.created, elapsed)
	sample.RedirectsPerSecond = growth(before.redirects, now.redirects, elapsed)
	sample.FailedPerSecond = growth(before.failed, now.failed, elapsed)
	if s.RefilledPerSecond != nil {
		sample.RefilledPerSecond = growth(before.refilled, now.refilled, elapsed)
	}
	if s.ServingFrom != nil { // a source has no counter before its first key: its count was 0
		sample.TakenPerSecond = make(map[string]float64)
		for source, n := range now.taken {
			sample.TakenPerSecond[source] = tenths((n - before.taken[source]) / elapsed)
		}
	}
	create, redirect := now.create.since(past[0].create), now.redirect.since(past[0].redirect)
	sample.CreateP50, sample.CreateP99 = create.quantile(0.5), create.quantile(0.99)
	sample.RedirectP50, sample.RedirectP99 = redirect.quantile(0.5), redirect.quantile(0.99)
	return sample
}

// growth returns the increase per second, nil where a count is nil.
func growth(before, now *float64, elapsed float64) *float64 {
	if before == nil || now == nil {
		return nil
	}
	perSecond := tenths((*now - *before) / elapsed)
	return &perSecond
}

// tenths rounds, to keep events short.
func tenths(v float64) float64 { return math.Round(10*v) / 10 }
