package kgstest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter returns the value of a counter. label is the value of its only label, or "" if it has no
// label.
func Counter(t testing.TB, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			if labels := metric.GetLabel(); label == "" && len(labels) == 0 || len(labels) == 1 && labels[0].GetValue() == label {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no counter %s with the label value %q", name, label)
	return 0
}
