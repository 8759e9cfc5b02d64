package kgs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"keypool/internal/promvalue"
)

// Metrics counts the events of key generation in one process, for example pushed and abandoned
// keys. Sizes, rates and states are not part of Metrics: other collectors read them at each scrape.
type Metrics struct {
	generated  prometheus.Counter
	lastPush   prometheus.Gauge
	abandons   *prometheus.CounterVec
	refills    prometheus.Histogram
	restarts   prometheus.Counter
	skipAheads prometheus.Counter
	witness    prometheus.Counter
	pages      prometheus.Counter
}

// NewMetrics registers the metrics with reg. It panics if the metrics are already registered
// with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	m := &Metrics{
		generated: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_keys_generated_total", Help: "Keys that this process pushed to the pool.",
		}),
		lastPush: auto.NewGauge(prometheus.GaugeOpts{
			Name: "kgs_last_push_timestamp_seconds", Help: "Unix time at which this process last pushed keys to the pool; 0 if it never did.",
		}),
		abandons: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_keys_abandoned_total", Help: "Keys that this process abandoned, by reason. The reasons crash, lost_reply, rollback and client also count keys that links have.",
		}, []string{"reason"}),
		refills: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "kgs_refill_seconds", Help: "Seconds that this process needed to take one local batch from the supply.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
		restarts: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_worker_restarts_total", Help: "Times that the dead man's switch restarted the refill worker.",
		}),
		skipAheads: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_ledger_skips_total", Help: "Skip-aheads: times that the ledger skipped numbers, because its database was rolled back or another database uses its pool.",
		}),
		witness: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_witness_failures_total", Help: "Failed attempts to write the witness beside the SQLite database of the ledger.",
		}),
		pages: auto.NewCounter(prometheus.CounterOpts{
			Name: "kgs_pages_total", Help: "Times that the dead man's switch of this process entered the state page. Each process that watches the pool counts by itself, even without a webhook for alerts.",
		}),
	}
	for _, reason := range []string{ReasonCrash, ReasonEpoch, ReasonEarlierEpoch, ReasonLostReply, ReasonRollback, ReasonClient} {
		m.abandons.WithLabelValues(reason)
	}
	return m
}

// CountSkipAhead counts one skip-ahead of the ledger and the keys that it abandons.
func (m *Metrics) CountSkipAhead(keys int64) {
	m.skipAheads.Inc()
	m.CountAbandoned(ReasonRollback, keys)
}

// CountWitnessFailure counts a failed attempt to write the witness of the ledger.
func (m *Metrics) CountWitnessFailure() { m.witness.Inc() }

// CountPushed counts keys that this process pushed to a pool.
func (m *Metrics) CountPushed(keys int64) {
	m.generated.Add(float64(keys))
	m.lastPush.SetToCurrentTime()
}

// CountAbandoned counts keys that this process abandoned for the given reason.
func (m *Metrics) CountAbandoned(reason string, keys int64) {
	m.abandons.WithLabelValues(reason).Add(float64(keys))
}

// Abandoned returns how many keys this process abandoned for the given reason.
func (m *Metrics) Abandoned(reason string) int64 {
	return int64(promvalue.Counter(m.abandons.WithLabelValues(reason)))
}

// CountRestart counts a restart of the refill worker by the dead man's switch.
func (m *Metrics) CountRestart() { m.restarts.Inc() }

// CountPage counts that the dead man's switch entered the state page.
func (m *Metrics) CountPage() { m.pages.Inc() }

// ObserveRefill records how long this process needed to take one local batch.
func (m *Metrics) ObserveRefill(d time.Duration) { m.refills.Observe(d.Seconds()) }

// Generated returns the number of keys that this process pushed to the pool.
func (m *Metrics) Generated() float64 { return promvalue.Counter(m.generated) }
