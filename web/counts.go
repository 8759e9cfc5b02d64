package web

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counts are what the program has counted up to a moment; one that it does not count is nil.
type counts struct {
	at                                   time.Time
	created, redirects, failed, refilled *float64
	taken                                map[string]float64 // by source
	create, redirect                     latencies
}

// readCounts takes less than a millisecond. The counters are known by the names that they
// have for everyone. An error is what g could not gather; the rest of it is there.
func readCounts(g prometheus.Gatherer, now time.Time) (counts, error) {
	gathered, err := g.Gather()
	families := make(map[string][]*dto.Metric, len(gathered))
	for _, f := range gathered {
		families[f.GetName()] = f.GetMetric()
	}
	c := counts{
		at:        now,
		created:   total(families["shortener_links_created_total"], nil),
		redirects: total(families["shortener_redirects_total"], func(m *dto.Metric) bool { return label(m, "result") == "found" }),
		refilled:  total(families["kgs_keys_generated_total"], nil),
		taken:     make(map[string]float64),
	}
	for _, m := range families["kgs_keys_taken_total"] {
		c.taken[label(m, "source")] = m.GetCounter().GetValue()
	}
	c.readRequests(families[requestsName])
	return c, err
}

func (c *counts) readRequests(requests []*dto.Metric) {
	if len(requests) == 0 {
		return
	}
	failed := 0.0
	for _, m := range requests {
		route, status := label(m, "route"), label(m, "status")
		switch {
		case strings.HasPrefix(status, "5"):
			failed += float64(m.GetHistogram().GetSampleCount())
		case route == routeShorten && status == "201":
			c.create = readLatencies(m.GetHistogram())
		case route == routeCode && status == "302" && label(m, "method") == "GET":
			c.redirect = readLatencies(m.GetHistogram())
		}
	}
	c.failed = &failed
}

// total adds up the counters that count, all of them if counts is nil; nil without any.
func total(metrics []*dto.Metric, counts func(*dto.Metric) bool) *float64 {
	if len(metrics) == 0 {
		return nil
	}
	sum := 0.0
	for _, m := range metrics {
		if counts == nil || counts(m) {
			sum += m.GetCounter().GetValue()
		}
	}
	return &sum
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
