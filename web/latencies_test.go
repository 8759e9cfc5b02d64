package web

import (
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"
)

func newLatencies(t interface{ Fatal(...any) }, seconds ...float64) (h prometheus.Histogram, read func() latencies) {
	h = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", NativeHistogramBucketFactor: latencyResolution})
	for _, v := range seconds {
		h.Observe(v)
	}
	return h, func() latencies {
		var m dto.Metric
		if err := h.Write(&m); err != nil {
			t.Fatal(err)
		}
		return readLatencies(m.GetHistogram())
	}
}

// Whatever was observed, a quantile is within a twentieth of the true one.
func TestQuantileIsNearTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(20e-6, 20), 1, 300).Draw(t, "seconds")
		q := rapid.SampledFrom([]float64{0.5, 0.99, 1}).Draw(t, "q")
		_, read := newLatencies(t, values...)
		got := read().quantile(q)
		slices.Sort(values)
		want := values[int(math.Ceil(q*float64(len(values))))-1]
		if got == nil || math.Abs(*got-want) > want/20+1e-6 {
			t.Fatalf("quantile %v: %v, want about %v", q, got, want)
		}
	})
}

func TestQuantileOfWhatCameSince(t *testing.T) {
	t.Parallel()
	h, read := newLatencies(t, 1, 1, 1, 1)
	before := read()
	if got := read().since(before).quantile(0.5); got != nil {
		t.Errorf("the median of nothing is %v", *got)
	}
	h.Observe(0.001)
	if got := read().since(before).quantile(0.99); got == nil || math.Abs(*got-0.001) > 0.0001 {
		t.Errorf("p99 %v, want that of the newest alone", got)
	}
}
