package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"keypool/web/api"
)

// The latencies for the dashboard include only successful creations and redirects. They
// omit refusals, which are fast, and HEAD requests, which are not visits. A refusal with a
// 5xx status counts as failed.
func TestLatenciesOmitFailuresAndHEADRequests(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	m.answered(api.RouteShorten, http.MethodPost, http.StatusCreated, time.Millisecond)
	m.answered(api.RouteShorten, http.MethodPost, http.StatusServiceUnavailable, 9*time.Second)
	m.answered(api.RouteShorten, http.MethodPost, http.StatusConflict, 9*time.Second)
	m.answered(routeCode, http.MethodGet, http.StatusFound, 40*time.Microsecond)
	m.answered(routeCode, http.MethodGet, http.StatusNotFound, 9*time.Second)
	m.answered(routeCode, http.MethodHead, http.StatusFound, 9*time.Second)
	m.visited(nil)
	for _, tt := range []struct {
		name      string
		histogram prometheus.Histogram
		seconds   float64
	}{
		{"creations", m.CreateLatency(), 0.001},
		{"redirects", m.RedirectLatency(), 40e-6},
	} {
		var got dto.Metric
		if err := tt.histogram.Write(&got); err != nil {
			t.Fatal(err)
		}
		if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != tt.seconds {
			t.Errorf("the histogram of %s has %d answers with a sum of %v s, want 1 with %v s", tt.name, h.GetSampleCount(), h.GetSampleSum(), tt.seconds)
		}
	}
	if failed, redirects := m.Failed(), m.Redirects(); failed != 1 || redirects != 1 {
		t.Errorf("counted %v failures and %v redirects, want 1 and 1", failed, redirects)
	}
}
