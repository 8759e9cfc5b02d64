package commit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMetricOfFallbackAttemptsCountsOnlyRandomKeys(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	metrics.tried(0) // the key was not random, so there is no observation
	metrics.tried(3)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, family := range families {
		if family.GetName() != "kgs_fallback_attempts" {
			continue
		}
		seen = true
		if h := family.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 3 {
			t.Errorf("the histogram has %d observations with the sum %v, want 1 observation of 3", h.GetSampleCount(), h.GetSampleSum())
		}
	}
	if !seen {
		t.Error("kgs_fallback_attempts is not registered")
	}
}
