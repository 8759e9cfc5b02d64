// Package promvalue reads Prometheus counters of the same process, so that a program can
// show what it counts without scraping itself.
package promvalue

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Counter reads one counter.
func Counter(c prometheus.Counter) float64 { return read(c).GetCounter().GetValue() }

// ByLabel reads a family of counters with one label: the values by label value.
func ByLabel(family *prometheus.CounterVec) map[string]float64 {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		family.Collect(metrics)
	}()
	values := make(map[string]float64)
	for m := range metrics {
		read := read(m)
		values[read.GetLabel()[0].GetValue()] = read.GetCounter().GetValue()
	}
	return values
}

// read panics on an error: writing a counter's own value fails for invalid metrics only,
// which a registered counter never is.
func read(m prometheus.Metric) *dto.Metric {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return &out
}
