package loadtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Figures counts requests by their states.
type Figures struct {
	Sent         int64 // requests in all states except unsent
	Acknowledged int64
	Refused      int64
	Unknown      int64
	Unsent       int64
	Latency      Latency // latency of the sent requests
}

// Failed returns the number of requests that were not acknowledged.
func (f Figures) Failed() int64 { return f.Refused + f.Unknown + f.Unsent }

// count adds a request that ended in state. A request without an outcome counts as unknown.
func (f *Figures) count(state State) {
	if state != Unsent {
		f.Sent++
	}
	switch state {
	case Acknowledged:
		f.Acknowledged++
	case Refused:
		f.Refused++
	case Unsent:
		f.Unsent++
	case Unknown, Intended:
		f.Unknown++
	}
}

// Plus returns the sums of the counts of f and o, without latencies.
func (f Figures) Plus(o Figures) Figures {
	return Figures{
		Sent: f.Sent + o.Sent, Acknowledged: f.Acknowledged + o.Acknowledged, Refused: f.Refused + o.Refused,
		Unknown: f.Unknown + o.Unknown, Unsent: f.Unsent + o.Unsent,
	}
}

// Count counts entries by state, without latencies.
func Count(entries []Entry) Figures {
	var f Figures
	for _, e := range entries {
		f.count(e.State)
	}
	return f
}

// Latency summarises how long requests took. The time of a request begins when the request is due, and
// ends when the answer is complete or the request has failed.
type Latency struct {
	P50, P99, P999, Max time.Duration
}

func (l Latency) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms, max %.1f ms",
		milliseconds(l.P50), milliseconds(l.P99), milliseconds(l.P999), milliseconds(l.Max))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The range and the precision of the histogram. A latency outside the range counts as the nearest latency in the range.
const (
	shortest = 1                                          // least latency, in microseconds
	longest  = int64(10 * time.Minute / time.Microsecond) // greatest latency, in microseconds
	digits   = 3                                          // number of significant decimal digits
)

// Recorder collects figures while a load runs. One recorder may serve several loads. It may be used concurrently.
type Recorder struct {
	mu        sync.Mutex
	counts    Figures // without latencies
	latencies *hdrhistogram.Histogram
}

// NewRecorder makes an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{latencies: hdrhistogram.New(shortest, longest, digits)}
}

func (r *Recorder) add(state State, latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.count(state)
	if state != Unsent { // an unsent request has no latency
		// RecordValue fails only for a value outside the bounds, which min and max prevent.
		_ = r.latencies.RecordValue(min(max(latency.Microseconds(), shortest), longest))
	}
}

// Add adds the figures of o to r. No other goroutine may use o.
func (r *Recorder) Add(o *Recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = r.counts.Plus(o.counts)
	r.latencies.Merge(o.latencies)
}

// Figures returns what was recorded so far.
func (r *Recorder) Figures() Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.counts
	if f.Sent == 0 {
		return f
	}
	at := func(percentile float64) time.Duration {
		return time.Duration(r.latencies.ValueAtPercentile(percentile)) * time.Microsecond
	}
	f.Latency = Latency{P50: at(50), P99: at(99), P999: at(99.9), Max: at(100)}
	return f
}
