package kgs

import (
	"time"

	"keypool/internal/promvalue"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the counters of one process's part in the supply chain. What can be
// read off at any time (sizes, rates, states) is collected by the program instead.
type Metrics struct {
	generated prometheus.Counter
	lastPush  prometheus.Gauge
	abandons  *prometheus.CounterVec
	refills   prometheus.Histogram
	restarts  prometheus.Counter
	jumps     prometheus.Counter
	pages     prometheus.Counter
}

// NewMetrics registers the metrics with reg, once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	m := &Metrics{
		generated: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_keys_generated_total", Help: "Keys that this process pushed to the pool.",
		}),
		lastPush: auto.NewGauge(prometheus.GaugeOpts{
			Name: "kgs_last_push_timestamp_seconds", Help: "When this process last pushed keys to the pool, in Unix time; 0 for never.",
		}),
		abandons: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_keys_abandoned_total", Help: "Keys that this process wrote off, by reason.",
		}, []string{"reason"}),
		refills: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "kgs_refill_seconds", Help: "How long it took to take one local batch from the supply.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
		restarts: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_worker_restarts_total", Help: "Times the dead man's switch restarted the refill worker.",
		}),
		jumps: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_ledger_jumps_total", Help: "Times the ledger's database was found to have come back from an older state.",
		}),
		pages: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_pages_total", Help: "Times the dead man's switch asked for a human.",
		}),
	}
	for _, reason := range []string{ReasonCrash, ReasonEpoch, ReasonLostReply, ReasonRollback, ReasonClient} {
		m.abandons.WithLabelValues(reason)
	}
	return m
}

// Jumped counts a jump of the ledger, over keys that are written off: see [Ledger.OnJump].
func (m *Metrics) Jumped(keys int64) {
	m.jumps.Inc()
	m.abandoned(ReasonRollback, keys)
}

// Kept counts keys that are a client's for good: see [Ledger.EndLease].
func (m *Metrics) Kept(keys int64) { m.abandoned(ReasonClient, keys) }

func (m *Metrics) pushed(keys int64) {
	m.generated.Add(float64(keys))
	m.lastPush.SetToCurrentTime()
}

func (m *Metrics) abandoned(reason string, keys int64) {
	m.abandons.WithLabelValues(reason).Add(float64(keys))
}

func (m *Metrics) refilled(d time.Duration) { m.refills.Observe(d.Seconds()) }

// Generated returns the number of keys that this process pushed to the pool.
func (m *Metrics) Generated() float64 { return promvalue.Counter(m.generated) }
