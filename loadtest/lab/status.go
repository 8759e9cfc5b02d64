package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// askTimeout limits one request to an admin listener.
const askTimeout = 5 * time.Second

// Status is the answer to GET /status. A pointer is nil if the program reports no value.
type Status struct {
	State         string   `json:"state"`        // "filling", "ok", "restart" or "page"
	ServingFrom   *string  `json:"serving_from"` // "batch", "fallback" or "none"
	PoolKeys      *int64   `json:"pool_keys"`
	CapacityKeys  *int64   `json:"capacity_keys"`
	LocalKeys     *int64   `json:"local_keys"`
	RunwaySeconds *float64 `json:"runway_seconds"`
	Epoch         *int64   `json:"epoch"`
	Breaker       *string  `json:"breaker"` // "closed", "half-open" or "open"
}

// Full reports whether the pool is full. Nine tenths of the capacity count as full, because a worker does
// not refill a pool with that many keys.
func (s Status) Full() bool {
	return s.State == "ok" && s.PoolKeys != nil && s.CapacityKeys != nil && *s.PoolKeys >= *s.CapacityKeys*9/10
}

// Known returns the value to which member points. If member is nil, Known returns the value of the parameter unknown.
func Known[V any](member *V, unknown V) V {
	if member == nil {
		return unknown
	}
	return *member
}

// Status requests /status from the admin listener.
func (p *Program) Status() Status {
	s, err := p.TryStatus()
	must(p.r, err, "read the status of "+p.name)
	return s
}

// TryStatus is like Status but returns an error. It may be called concurrently.
func (p *Program) TryStatus() (s Status, err error) {
	err = get(p.r.Context(), p.Admin+"/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&s) })
	return s, err
}

// Counter returns the value of a counter or gauge, such as Counter("kgs_keys_taken_total", "source",
// "pool"). The value is the sum over the time series that have the labels, or 0 if no time series has
// them. If the program does not report the metric family at all, Counter ends the run.
func (p *Program) Counter(family string, labels ...string) float64 {
	v, err := p.TryCounter(family, labels...)
	must(p.r, err, "read a metric of "+p.name)
	return v
}

// TryCounter is like Counter but returns an error. It may be called concurrently.
func (p *Program) TryCounter(family string, labels ...string) (sum float64, err error) {
	f, err := p.family(family)
	if err != nil {
		return 0, err
	}
	for _, m := range f.GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum, nil
}

// Histogram returns the sum and the number of the observations of a histogram without labels.
func (p *Program) Histogram(family string) (sum, observations float64) {
	f, err := p.family(family)
	must(p.r, err, "read a metric of "+p.name)
	for _, m := range f.GetMetric() {
		sum += m.GetHistogram().GetSampleSum()
		observations += float64(m.GetHistogram().GetSampleCount())
	}
	return sum, observations
}

// family reads one family of metrics.
func (p *Program) family(name string) (f *dto.MetricFamily, err error) {
	err = get(p.r.Context(), p.Admin+"/metrics", func(body io.Reader) error {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(body)
		f = families[name]
		return err
	})
	if err == nil && f == nil {
		err = fmt.Errorf("%s reports no metric %s", p.name, name)
	}
	return f, err
}

// hasLabels reports whether m has all labels. Each label is a name followed by its value.
func hasLabels(m *dto.Metric, labels []string) bool {
	for pair := range slices.Chunk(labels, 2) {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == pair[0] && l.GetValue() == pair[1] }) {
			return false
		}
	}
	return true
}

// get sends a GET request on a new connection, because an open connection may belong to a killed process.
// If read is not nil, get passes the body of the answer to read. A status other than 200 is an error.
func get(ctx context.Context, address string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	switch {
	case res.StatusCode != http.StatusOK:
		err = errors.New(res.Status)
	case read != nil:
		err = read(res.Body)
	}
	_ = res.Body.Close() // the answer was read, or its error is returned
	if err != nil {
		return fmt.Errorf("GET %s: %w", req.URL.Redacted(), err)
	}
	return nil
}
