package web

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"keypool/internal/promvalue"
	"keypool/shortener"
	"keypool/web/api"
	"keypool/web/client"
	"keypool/web/internal/problem"
)

// latencyResolution is the maximum ratio of the bounds of neighbouring buckets of a Prometheus
// native histogram. With this maximum, a quantile has an error of less than 5 %.
const latencyResolution = 1.1

// Metrics counts the requests of the public listener. It is safe for concurrent use.
type Metrics struct {
	requests             *prometheus.HistogramVec
	redirect, created    prometheus.Histogram // histograms of the two most frequent answers
	found, missing, gone prometheus.Counter
	failures             atomic.Int64

	limited client.Refused
}

// NewMetrics registers the metrics with reg. It panics if reg already has metrics with
// these names, so each public listener needs its own registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	requests := auto.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "http_request_duration_seconds",
		Help:    "Seconds from the end of a request's header to the end of its answer, by route pattern, method and status.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		// Native buckets are necessary because most answers are faster than the bound of the first
		// classic bucket.
		NativeHistogramBucketFactor: latencyResolution,
	}, []string{"route", "method", "status"})
	redirects := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "shortener_redirects_total",
		Help: "GET requests for short URLs by result: found, missing or gone. Requests answered with 429 or 503 are in no result. HEAD requests and previews are not counted.",
	}, []string{"result"})
	limited := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "http_requests_limited_total",
		Help: "Requests refused with status 429, by the limit that the client reached: anonymous (creations of an address), token (creations with a token) or miss. Each refused line of a bulk request counts as a request.",
	}, []string{"limit"})
	return &Metrics{
		limited: client.Refused{
			Anonymous: limited.WithLabelValues("anonymous"),
			Token:     limited.WithLabelValues("token"),
			Miss:      limited.WithLabelValues("miss"),
		},
		requests: requests,
		redirect: child(requests, routeCode, http.MethodGet, http.StatusFound),
		created:  child(requests, api.RouteShorten, http.MethodPost, http.StatusCreated),
		found:    redirects.WithLabelValues("found"),
		missing:  redirects.WithLabelValues("missing"),
		gone:     redirects.WithLabelValues("gone"),
	}
}

func child(requests *prometheus.HistogramVec, route, method string, status int) prometheus.Histogram {
	return requests.WithLabelValues(route, method, strconv.Itoa(status)).(prometheus.Histogram) // every child of the vector is a histogram
}

// CreateLatency returns the histogram of the durations, in seconds, of the requests POST /shorten with status 201.
// It has native buckets.
func (m *Metrics) CreateLatency() prometheus.Histogram { return m.created }

// RedirectLatency returns the histogram of the durations, in seconds, of the requests GET /{code} with status 302.
// It has native buckets.
func (m *Metrics) RedirectLatency() prometheus.Histogram { return m.redirect }

// Redirects returns the number of GET requests for short URLs that found their link.
func (m *Metrics) Redirects() float64 { return promvalue.Counter(m.found) }

// Failed returns the number of requests answered with a 5xx status.
func (m *Metrics) Failed() float64 { return float64(m.failures.Load()) }

// Limited is the number of requests that each limit refused.
type Limited struct{ Anonymous, Token, Miss float64 }

// Limited returns the number of requests that each limit refused.
func (m *Metrics) Limited() Limited {
	return Limited{promvalue.Counter(m.limited.Anonymous), promvalue.Counter(m.limited.Token), promvalue.Counter(m.limited.Miss)}
}

// answered counts one answer. The route is empty if the path matches no route.
func (m *Metrics) answered(route, method string, status int, took time.Duration) {
	if status >= http.StatusInternalServerError {
		m.failures.Add(1)
	}
	m.observer(route, method, status).Observe(took.Seconds())
}

func (m *Metrics) observer(route, method string, status int) prometheus.Observer {
	switch {
	case route == routeCode && method == http.MethodGet && status == http.StatusFound:
		return m.redirect
	case route == api.RouteShorten && status == http.StatusCreated:
		return m.created
	case route == "":
		route = "none"
	}
	return m.requests.WithLabelValues(route, methodLabel(method), strconv.Itoa(status))
}

// methodLabel returns method if it is in the list below, and otherwise "other". Without this rule, a client could
// create any number of label values.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// visited counts a GET request for a short URL by the error of its look-up. It counts neither a
// request that the miss limiter refused nor a request for which the store did not answer.
func (m *Metrics) visited(err error) {
	switch {
	case err == nil:
		m.found.Inc()
	case errors.Is(err, shortener.ErrNotFound):
		m.missing.Inc()
	case errors.Is(err, shortener.ErrGone):
		m.gone.Inc()
	}
}

// instrument is the only middleware. It turns a panic into an error and an error into an answer. It counts the answer, even
// if the connection breaks in the middle of the answer. One middleware does these three tasks, because each further
// middleware would take time in every redirect.
func (p *public) instrument(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		defer func() {
			p.metrics.answered(c.Path(), c.Request().Method, c.Response().Status, time.Since(start))
		}()
		if err := recovered(next, c); err != nil {
			c.Error(err)
		}
		return nil
	}
}

// recovered calls the handler next. If the handler panics, recovered returns the panic as an error that includes the
// stack.
func recovered(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = problem.Panicked(v)
		}
	}()
	return next(c)
}
