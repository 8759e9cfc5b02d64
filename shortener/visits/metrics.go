package visits

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the work of a [Counter]. It may be used concurrently.
type Metrics struct {
	dropped, droppedDetails prometheus.Counter
	failures                prometheus.Counter
	pending                 prometheus.Gauge
	stored                  prometheus.Gauge
}

// NewMetrics registers the metrics with reg. It panics if reg already has them, because a registry serves only
// one Counter.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shortener_visits_dropped_total",
			Help: "Visits that were not counted because the memory for counts was full, or that the database may not have stored.",
		}),
		droppedDetails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shortener_visit_details_dropped_total",
			Help: "Referrers, countries and devices that were not counted because the memory for them was full, or that the database may not have stored.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shortener_visits_flush_failures_total",
			Help: "Failed attempts to store the counts of visits.",
		}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shortener_visits_pending_rows",
			Help: "Counts that are in memory and not in the database, at the end of the last flush. There is one count for each link and hour with visits. After a failed flush, a link with more visits in the same hour has two counts for this hour.",
		}),
		stored: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shortener_visits_stored_timestamp_seconds",
			Help: "All visits that this server counted before this time are in the database or were dropped.",
		}),
	}
	reg.MustRegister(m.dropped, m.droppedDetails, m.failures, m.pending, m.stored)
	return m
}
