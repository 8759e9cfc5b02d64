package commit

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/promvalue"
)

// Metrics counts commits and the keys that they need. It may be used concurrently.
type Metrics struct {
	rows    prometheus.Histogram // rows in one Insert that succeeded
	seconds prometheus.Histogram // seconds from sending an Insert until it is durable or fails

	keysTaken        *prometheus.CounterVec
	keyConflicts     *prometheus.CounterVec
	fallbackAttempts prometheus.Histogram
	setAside         prometheus.Gauge

	// sources holds a *sourceMetrics for each Key.Source drawn so far. Without this map, each creation would look its
	// counters up in a CounterVec by their label. Such a look-up hashes and allocates.
	sources sync.Map
}

// sourceMetrics counts the keys of one key source. A key that is set aside and used later counts
// only once.
type sourceMetrics struct {
	taken     prometheus.Counter
	conflicts prometheus.Counter
}

// NewMetrics registers the metrics with reg. It panics if reg already has them, because a
// registry serves only one Parts.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		rows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shortener_commit_rows",
			Help:    "Links sent in one transaction that succeeded, including links whose code was in use and links of repeated requests.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shortener_commit_seconds",
			Help:    "Seconds from sending a transaction of links until it is durable or fails.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
		}),
		keysTaken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_keys_taken_total",
			Help: "Keys drawn by creations, by key source. This includes keys that creations gave back, such as for repeated lines of a bulk request. A key that is given back and drawn again counts once.",
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
		setAside: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shortener_keys_set_aside",
			Help: "Keys set aside for later creations, because their node did not answer or another node suited the creation better.",
		}),
	}
	reg.MustRegister(m.rows, m.seconds, m.keysTaken, m.keyConflicts, m.fallbackAttempts, m.setAside)
	return m
}

// source returns the counters of one key source. The name is never user input. The program defines the few possible
// names, so there are few counters.
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

// tried observes the number of random keys that a creation tried, if it tried any.
func (m *Metrics) tried(random int) {
	if random > 0 {
		m.fallbackAttempts.Observe(float64(random))
	}
}

// KeysTaken returns the number of keys that creations took, by key source.
func (m *Metrics) KeysTaken() map[string]float64 { return promvalue.ByLabel(m.keysTaken) }
