package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/promvalue"
	"keypool/shortener/commit"
)

// Metrics counts the work of a [Service]. It may be used concurrently.
type Metrics struct {
	createdByKey   prometheus.Counter
	createdByAlias prometheus.Counter
	commits        *commit.Metrics
}

// NewMetrics registers the metrics with reg. It panics if reg already has them, because a
// registry serves only one Service.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	created := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shortener_links_created_total",
		Help: "Links created, by the kind of their code: key or alias. A link does not count if its creation was answered with status 503 because the outcome was unknown.",
	}, []string{"kind"})
	reg.MustRegister(created)
	return &Metrics{
		createdByKey:   created.WithLabelValues("key"),
		createdByAlias: created.WithLabelValues("alias"),
		commits:        commit.NewMetrics(reg),
	}
}

// Created returns the number of links created, with keys and with aliases.
func (m *Metrics) Created() float64 {
	return promvalue.Counter(m.createdByKey) + promvalue.Counter(m.createdByAlias)
}

// KeysTaken returns the number of keys that creations took, by key source.
func (m *Metrics) KeysTaken() map[string]float64 { return m.commits.KeysTaken() }
