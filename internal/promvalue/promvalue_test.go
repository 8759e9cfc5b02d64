package promvalue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestFunctionsCounterAndByLabelReturnMetricValues(t *testing.T) {
	t.Parallel()
	one := prometheus.NewCounter(prometheus.CounterOpts{Name: "one"})
	one.Add(3)
	if got := Counter(one); got != 3 {
		t.Errorf("value %v, want 3", got)
	}
	family := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "family"}, []string{"source"})
	if got := ByLabel(family); len(got) != 0 {
		t.Errorf("values of an empty family: %v", got)
	}
	family.WithLabelValues("pool").Add(2)
	family.WithLabelValues("random").Inc()
	if diff := cmp.Diff(map[string]float64{"pool": 2, "random": 1}, ByLabel(family)); diff != "" {
		t.Error(diff)
	}
}
