package shortener

import (
	"sync"

	"keypool/internal/promvalue"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what a [Service] does. All of it may be used concurrently.
type Metrics struct {
	createdByKey   prometheus.Counter
	createdByAlias prometheus.Counter

	commitRows    prometheus.Histogram // links in one INSERT
	commitSeconds prometheus.Histogram // from sending an INSERT until it is durable

	keysTaken        *prometheus.CounterVec
	keyConflicts     *prometheus.CounterVec
	fallbackAttempts prometheus.Histogram

	// sources holds a *sourceMetrics for each Key.Source that was ever drawn: a
	// look-up by label hashes and allocates, and every creation would pay for it.
	sources sync.Map
}

// sourceMetrics counts the keys of one source.
type sourceMetrics struct {
	taken     prometheus.Counter
	conflicts prometheus.Counter
}

// NewMetrics registers the metrics with reg. It panics when reg has them already:
// one registry serves one Service.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	created := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shortener_links_created_total",
		Help: "Links made, by whether their code is a key or an alias.",
	}, []string{"kind"})
	m := &Metrics{
		createdByKey:   created.WithLabelValues("key"),
		createdByAlias: created.WithLabelValues("alias"),
		commitRows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shortener_commit_rows",
			Help:    "Links written by one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shortener_commit_seconds",
			Help:    "Seconds until one transaction of links was durable.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
		}),
		keysTaken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_keys_taken_total",
			Help: "Keys drawn by creations, by where they came from.",
		}, []string{"source"}),
		keyConflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_key_conflicts_total",
			Help: "Keys that a link had already, by where they came from.",
		}, []string{"source"}),
		fallbackAttempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kgs_fallback_attempts",
			Help:    "Random keys that a creation tried until one was free.",
			Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024},
		}),
	}
	reg.MustRegister(created, m.commitRows, m.commitSeconds, m.keysTaken, m.keyConflicts, m.fallbackAttempts)
	return m
}

// source gives the counters of one key source. Sources are the few names that the
// program knows, never anything a user sent.
func (m *Metrics) source(name string) *sourceMetrics {
	if s, ok := m.sources.Load(name); ok {
		return s.(*sourceMetrics)
	}
	s, _ := m.sources.LoadOrStore(name, &sourceMetrics{
		taken:     m.keysTaken.WithLabelValues(name),
		conflicts: m.keyConflicts.WithLabelValues(name),
	})
	return s.(*sourceMetrics)
}

// createdWithKey counts a link whose key was found after so many random ones; 0 means
// that it was not random.
func (m *Metrics) createdWithKey(random int) {
	m.createdByKey.Inc()
	if random > 0 {
		m.fallbackAttempts.Observe(float64(random))
	}
}

// Created returns the number of links created, with keys and with aliases.
func (m *Metrics) Created() float64 {
	return promvalue.Counter(m.createdByKey) + promvalue.Counter(m.createdByAlias)
}

// KeysTaken returns the number of keys that creations took, by where the keys came from.
func (m *Metrics) KeysTaken() map[string]float64 { return promvalue.ByLabel(m.keysTaken) }
