// Package promvalue reads the Prometheus counters of its own process, so that a program can show
// them without an HTTP request to itself.
package promvalue

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Counter returns the value of one counter.
func Counter(c prometheus.Counter) float64 { return read(c).GetCounter().GetValue() }

// ByLabel returns the values of a counter vector with exactly one label, by label value.
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

// read panics on an error. Write fails only for an invalid metric, and a registered counter is
// always valid.
func read(m prometheus.Metric) *dto.Metric {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return &out
}
