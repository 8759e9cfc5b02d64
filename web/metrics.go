package web

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"keypool/shortener"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// requestsName is the histogram of all requests, which the dashboard reads too.
const requestsName = "http_request_duration_seconds"

// metrics are those of the public listener.
type metrics struct {
	requests             *prometheus.HistogramVec
	redirect, created    prometheus.Observer // the children of the two hot answers
	found, missing, gone prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	requests := auto.NewHistogramVec(prometheus.HistogramOpts{
		Name:    requestsName,
		Help:    "Time from the end of a request's header to the end of its answer, by route pattern.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		// Beside those, fine ones: most answers take less than the first of these.
		NativeHistogramBucketFactor: latencyResolution,
	}, []string{"route", "method", "status"})
	redirects := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "shortener_redirects_total",
		Help: "Visits of short URLs by what became of them; HEAD requests and previews are none.",
	}, []string{"result"})
	return &metrics{
		requests: requests,
		redirect: requests.WithLabelValues(routeCode, http.MethodGet, "302"),
		created:  requests.WithLabelValues(routeShorten, http.MethodPost, "201"),
		found:    redirects.WithLabelValues("found"),
		missing:  redirects.WithLabelValues("missing"),
		gone:     redirects.WithLabelValues("gone"),
	}
}

// answered counts one answer. An empty route is a path that the router does not know.
func (m *metrics) answered(route, method string, status int, took time.Duration) {
	m.child(route, method, status).Observe(took.Seconds())
}

func (m *metrics) child(route, method string, status int) prometheus.Observer {
	switch {
	case route == routeCode && method == http.MethodGet && status == http.StatusFound:
		return m.redirect
	case route == routeShorten && status == http.StatusCreated:
		return m.created
	case route == "":
		route = "none"
	}
	return m.requests.WithLabelValues(route, methodLabel(method), strconv.Itoa(status))
}

// methodLabel keeps the methods that a client may make up out of the labels.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// visited counts one visit by the error that its lookup ended with. A visit that
// got no answer about the link (refused, or the store was away) is not counted.
func (m *metrics) visited(err error) {
	switch {
	case err == nil:
		m.found.Inc()
	case errors.Is(err, shortener.ErrNotFound):
		m.missing.Inc()
	case errors.Is(err, shortener.ErrGone):
		m.gone.Inc()
	}
}
