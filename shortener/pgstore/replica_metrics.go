package pgstore

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener"
)

// ReplicaMetrics counts the look-ups at replicas and shows the lag of the replicas. It may be used concurrently.
type ReplicaMetrics struct {
	found, missing, failed prometheus.Counter
	lags, used             *prometheus.GaugeVec
}

// NewReplicaMetrics registers the metrics with reg. It panics if reg already has them.
func NewReplicaMetrics(reg prometheus.Registerer) *ReplicaMetrics {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shortener_replica_lookups_total",
		Help: "Requests for links to a replica of PostgreSQL, by result. A look-up may make several requests while the primary does not answer.",
	}, []string{"result"})
	m := &ReplicaMetrics{
		found: lookups.WithLabelValues("found"), missing: lookups.WithLabelValues("missing"), failed: lookups.WithLabelValues("failed"),
		lags: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shortener_replica_lag_seconds",
			Help: "Lag of a replica: the age of the oldest change that the replica may lack. While the primary does not answer, the lag is computed for the time of its last answer. The replicas are numbered from 1, in the order of DATABASE_READ_URLS.",
		}, []string{"replica"}),
		used: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shortener_replica_used",
			Help: "1 if look-ups ask the replica; 0 if the replica lags too much, does not answer or does not follow the primary.",
		}, []string{"replica"}),
	}
	reg.MustRegister(lookups, m.lags, m.used)
	return m
}

// count counts a look-up at a replica by its error.
func (m *ReplicaMetrics) count(err error) {
	switch {
	case err == nil:
		m.found.Inc()
	case isNotFound(err):
		m.missing.Inc()
	default:
		m.failed.Inc()
	}
}

// measured exports the lag of a replica, and whether look-ups ask the replica. If the lag is unknown,
// the metric of the lag is removed.
func (m *ReplicaMetrics) measured(replica int, lag *time.Duration, used bool) {
	name := strconv.Itoa(replica + 1)
	var one float64
	if used {
		one = 1
	}
	m.used.WithLabelValues(name).Set(one)
	if lag == nil {
		m.lags.DeleteLabelValues(name)
		return
	}
	m.lags.WithLabelValues(name).Set(lag.Seconds())
}

func isNotFound(err error) bool { return errors.Is(err, shortener.ErrNotFound) }
