package lab

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCounterSumsSeriesAndFailsWithoutMetric(t *testing.T) {
	t.Parallel()
	const seven = "# TYPE kgs_keys_taken_total counter\n" +
		"kgs_keys_taken_total{source=\"pool\",to=\"a\"} 7\nkgs_keys_taken_total{source=\"pool\",to=\"b\"} 1\nkgs_keys_taken_total{source=\"hash\",to=\"a\"} 2\n"
	taken := []string{"kgs_keys_taken_total", "source", "pool"}
	tests := []struct {
		name   string
		metric []string
		status int
		answer string
		want   float64 // -1 if Counter must fail
	}{
		{"one time series", []string{"kgs_keys_taken_total", "source", "pool", "to", "a"}, http.StatusOK, seven, 7},
		{"several time series", taken, http.StatusOK, seven, 8},
		{"all time series of a metric", taken[:1], http.StatusOK, seven, 10},
		{"no time series with the label yet", []string{"kgs_keys_taken_total", "source", "random"}, http.StatusOK, seven, 0},
		{"no such metric", []string{"kgs_key_conflicts_total", "source", "pool"}, http.StatusOK, seven, -1},
		{"status 500", taken, http.StatusInternalServerError, seven, -1},
		{"an answer that contains no metrics", taken, http.StatusOK, "{", -1},
		{"an answer that is cut short", taken, http.StatusOK, seven[:len(seven)-3], -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.answer)) // the test checks what the client received
			}))
			defer admin.Close()
			r, got := newRun(t), -1.0
			failures := r.do(func() { got = deploymentWithAdmin(r, admin.URL).Counter(tt.metric[0], tt.metric[1:]...) })
			if got != tt.want || (len(failures) > 0) != (tt.want < 0) {
				t.Errorf("Counter returns %v with the failures %q, want %v", got, failures, tt.want)
			}
		})
	}
}

func TestHistogramReturnsSumAndCount(t *testing.T) {
	t.Parallel()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# TYPE tries histogram\ntries_bucket{le=\"+Inf\"} 2\ntries_sum 5\ntries_count 2\n")) // the test checks what the client received
	}))
	defer admin.Close()
	r := newRun(t)
	var sum, observations float64
	failures := r.do(func() { sum, observations = deploymentWithAdmin(r, admin.URL).Histogram("tries") })
	if sum != 5 || observations != 2 || len(failures) > 0 {
		t.Errorf("Histogram returns the sum %v of %v observations with the failures %q, want the sum 5 of 2", sum, observations, failures)
	}
}

func TestCounterFailsIfProgramDoesNotRun(t *testing.T) {
	t.Parallel()
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t)
	if failures := r.do(func() { deploymentWithAdmin(r, "http://"+addr).Counter("kgs_keys_taken_total") }); len(failures) != 1 {
		t.Errorf("Counter has the failures %q, want one failure", failures)
	}
}

// deploymentWithAdmin returns a program whose public and admin listener have the given URL.
func deploymentWithAdmin(r Run, url string) *Program {
	p := Deployment(r, url)
	p.Admin = url
	return p
}
