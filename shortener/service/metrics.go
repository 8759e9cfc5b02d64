package service

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/promvalue"
)

// Metrics counts the work of a [Service]. It may be used concurrently.
type Metrics struct {
	createdByKey   prometheus.Counter
	createdByAlias prometheus.Counter

	commitRows    prometheus.Histogram // links in one INSERT that succeeded
	commitSeconds prometheus.Histogram // seconds from sending an INSERT until it is durable or fails

	keysTaken        *prometheus.CounterVec
	keyConflicts     *prometheus.CounterVec
	fallbackAttempts prometheus.Histogram

	reg prometheus.Registerer // for the metrics of a store with several parts

	// sources holds a *sourceMetrics for each Key.Source drawn so far. With it, a creation
	// needs no look-up by label in a CounterVec, which hashes and allocates.
	sources sync.Map
}

// sourceMetrics counts the keys of one key source.
type sourceMetrics struct {
	taken     prometheus.Counter
	conflicts prometheus.Counter
}

// NewMetrics registers the metrics with reg. It panics if reg already has them, because a
// registry serves only one Service.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	created := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shortener_links_created_total",
		Help: "Links created, by the kind of their code: key or alias.",
	}, []string{"kind"})
	m := &Metrics{
		reg:            reg,
		createdByKey:   created.WithLabelValues("key"),
		createdByAlias: created.WithLabelValues("alias"),
		commitRows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shortener_commit_rows",
			Help:    "Links written by one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shortener_commit_seconds",
			Help:    "Seconds from sending a transaction of links until it is durable or fails.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
		}),
		keysTaken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_keys_taken_total",
			Help: "Keys drawn by creations, by key source.",
		}, []string{"source"}),
		keyConflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_key_conflicts_total",
			Help: "Keys that creations drew although another link already had them, by key source.",
		}, []string{"source"}),
		fallbackAttempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kgs_fallback_attempts",
			Help:    "Random keys tried by a creation until one was free.",
			Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024},
		}),
	}
	reg.MustRegister(created, m.commitRows, m.commitSeconds, m.keysTaken, m.keyConflicts, m.fallbackAttempts)
	return m
}

// source returns the counters of one key source. The program defines the few possible names.
// They are never user input.
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

// setAside registers the number of keys that are set aside.
func (m *Metrics) setAside(keys func() int64) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shortener_keys_set_aside",
		Help: "Keys that wait until the node of their links answers.",
	}, func() float64 { return float64(keys()) }))
}

// createdWithKey counts a link with a key. The parameter tried is the number of random keys
// that the creation tried. It is 0 if the key was not random.
func (m *Metrics) createdWithKey(tried int) {
	m.createdByKey.Inc()
	if tried > 0 {
		m.fallbackAttempts.Observe(float64(tried))
	}
}

// Created returns the number of links created, with keys and with aliases.
func (m *Metrics) Created() float64 {
	return promvalue.Counter(m.createdByKey) + promvalue.Counter(m.createdByAlias)
}

// KeysTaken returns the number of keys that creations took, by key source.
func (m *Metrics) KeysTaken() map[string]float64 { return promvalue.ByLabel(m.keysTaken) }
