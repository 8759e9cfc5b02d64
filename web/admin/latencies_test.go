package admin

import (
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"
)

func newLatencies(seconds ...float64) (h prometheus.Histogram, read func() latencies) {
	h = newHistogram()
	for _, v := range seconds {
		h.Observe(v)
	}
	return h, func() latencies { return readLatencies(h) }
}

// The error of a quantile is at most 5 %.
func TestQuantileErrorIsAtMostFivePercent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(20e-6, 20), 1, 300).Draw(t, "seconds")
		q := rapid.SampledFrom([]float64{0.5, 0.99, 1}).Draw(t, "q")
		_, read := newLatencies(values...)
		got := read().quantile(q)
		slices.Sort(values)
		want := values[int(math.Ceil(q*float64(len(values))))-1]
		if got == nil || math.Abs(*got-want) > want/20+1e-6 {
			t.Fatalf("quantile %v is %v s, want about %v s", q, got, want)
		}
	})
}

func TestQuantileIgnoresOldObservations(t *testing.T) {
	t.Parallel()
	h, read := newLatencies(1, 1, 1, 1)
	before := read()
	if got := read().since(before).quantile(0.5); got != nil {
		t.Errorf("the median of no observations is %v, want nil", *got)
	}
	h.Observe(0.001)
	if got := read().since(before).quantile(0.99); got == nil || math.Abs(*got-0.001) > 0.0001 {
		t.Errorf("p99 is %v s, want the p99 of only the new observations", got)
	}
}
