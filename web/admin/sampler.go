package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sampler takes a sample each second even if no dashboard is open, so that a dashboard
// that opens later shows the past minutes.
type sampler struct {
	cfg     Config
	history *history

	past    []counts // counts of earlier samples, back to the start of the latency window
	last    int64    // id of the last event
	failing bool
}

// facts is the data of a "facts" event: the status in the form in which the dashboard shows it.
type facts struct {
	State string `json:"state"`
	Fill  string `json:"fill"` // see [Status.Fill]
	Rows  []Row  `json:"rows"` // see [Status.Rows]
}

// run takes samples until ctx ends. Then it ends all streams of the history.
func (s *sampler) run(ctx context.Context) {
	defer s.history.end()
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	s.begin(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// After a pause of the process, two ticks may follow each other too closely to compute a rate.
		if now.Sub(s.past[len(s.past)-1].at) > sampleInterval/2 {
			s.note(ctx, s.sample(now))
		}
	}
}

// begin reads the counts from which the first sample computes its rates.
func (s *sampler) begin(now time.Time) { s.past = append(s.past, s.cfg.Counters.read(now)) }

// sample adds an event to the history. An error means that a value cannot be encoded.
func (s *sampler) sample(now time.Time) error {
	status := s.cfg.Status()
	read := s.cfg.Counters.read(now)
	for len(s.past) > 1 && now.Sub(s.past[0].at) > latencyWindow+sampleInterval/2 {
		s.past = s.past[1:]
	}
	sample := newSample(status, read, s.past)
	s.past = append(s.past, read)
	if sample.At <= s.last { // the clock was set back, but the ids must increase, so that the charts continue
		sample.At = s.last + sampleInterval.Milliseconds()
	}
	s.last = sample.At
	text, err := encodeEvent(fmt.Sprintf("id: %d\nevent: sample\n", sample.At), sample)
	if err != nil {
		return err
	}
	words, err := encodeEvent("event: facts\n", facts{status.State, status.Fill(), status.Rows()})
	if err != nil {
		return err
	}
	s.history.add(event{sample.At, text}, words)
	return nil
}

// note logs the first of several errors in a row and the first success after them.
func (s *sampler) note(ctx context.Context, err error) {
	switch {
	case err != nil && !s.failing:
		s.cfg.Logger.ErrorContext(ctx, "cannot encode a sample for the dashboard", "error", err)
	case err == nil && s.failing:
		s.cfg.Logger.InfoContext(ctx, "samples for the dashboard can be encoded again")
	}
	s.failing = err != nil
}

// encodeEvent encodes one event of a stream (WHATWG HTML, section 9.2). Encoded JSON
// contains no line break, so one data field holds it.
func encodeEvent(fields string, data any) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteString(fields + "data: ")
	if err := json.NewEncoder(&buf).Encode(data); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

// Sample is the data of a "sample" event. It holds the values that the dashboard draws for
// one moment. An absent member is unknown, has no value at that moment, or does not exist in this program.
// The "about" event lists the parts of the dashboard that this program has.
type Sample struct {
	At int64 `json:"at"` // Unix time in milliseconds; it increases from sample to sample

	State       string  `json:"state"`                  // as in Status, or "failing" while the program cannot do its work
	ServingFrom *string `json:"serving_from,omitempty"` // as in Status
	Breaker     *string `json:"breaker,omitempty"`      // as in Status
	Epoch       *int64  `json:"epoch,omitempty"`        // as in Status

	PoolKeys      *int64   `json:"pool_keys,omitempty"`      // as in Status
	LocalKeys     *int64   `json:"local_keys,omitempty"`     // as in Status
	RunwaySeconds *float64 `json:"runway_seconds,omitempty"` // as in Status

	// Counts of this program since the previous sample, divided by the elapsed time.
	CreatedPerSecond   *float64           `json:"created_per_second,omitempty"`   // links created with keys or aliases
	RedirectsPerSecond *float64           `json:"redirects_per_second,omitempty"` // visits
	FailedPerSecond    *float64           `json:"failed_per_second,omitempty"`    // requests answered with 5xx
	TakenPerSecond     map[string]float64 `json:"taken_per_second,omitzero"`      // keys that creations took, by source, such as pool
	RefilledPerSecond  *float64           `json:"refilled_per_second,omitempty"`  // keys that the program's worker pushed to the pool

	// Medians and 99th percentiles of the durations, in seconds, of the requests that ended in the last
	// latencyWindow. Each value differs from the exact quantile by at most 5 %. A value is absent if no
	// such request ended in the window.
	CreateP50   *float64 `json:"create_p50,omitempty"` // POST /shorten with status 201
	CreateP99   *float64 `json:"create_p99,omitempty"`
	RedirectP50 *float64 `json:"redirect_p50,omitempty"` // GET requests for short URLs with status 302
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
	if s.ServingFrom != nil {
		sample.TakenPerSecond = make(map[string]float64)
		for source, n := range now.taken { // a source without an entry in before.taken had the count 0
			sample.TakenPerSecond[source] = tenths((n - before.taken[source]) / elapsed)
		}
	}
	create, redirect := now.create.since(past[0].create), now.redirect.since(past[0].redirect)
	sample.CreateP50, sample.CreateP99 = create.quantile(0.5), create.quantile(0.99)
	sample.RedirectP50, sample.RedirectP99 = redirect.quantile(0.5), redirect.quantile(0.99)
	return sample
}

// growth returns the increase per second, or nil if one of the counts is nil.
func growth(before, now *float64, elapsed float64) *float64 {
	if before == nil || now == nil {
		return nil
	}
	perSecond := tenths((*now - *before) / elapsed)
	return &perSecond
}

// tenths rounds v to one decimal place, which keeps events short.
func tenths(v float64) float64 { return math.Round(10*v) / 10 }

// Counters holds the counts and the latencies of the program since its start. A nil function
// means that the program does not have this count. The functions are safe for concurrent use, and
// each takes well under a millisecond.
type Counters struct {
	Created   func() float64            // links created with keys or aliases
	Redirects func() float64            // visits
	Failed    func() float64            // requests answered with a 5xx status
	Refilled  func() float64            // keys that the program's worker pushed to the pool
	Taken     func() map[string]float64 // keys that creations took, by the source of the key

	// Histograms of the durations of the requests that Sample describes, with native buckets.
	Create, Redirect prometheus.Histogram
}

// counts are the values of Counters at one moment.
type counts struct {
	at                                   time.Time
	created, redirects, failed, refilled *float64 // nil if the program does not have the count
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
