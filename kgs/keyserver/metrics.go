package keyserver

import (
	"path"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the counters of one server. Their labels have a limited number of values, because the
// settings list the clients, and the definition of the service lists the procedures.
type metrics struct {
	keys     *prometheus.CounterVec
	requests *prometheus.CounterVec
}

func newMetrics(cfg Config) *metrics {
	auto := promauto.With(cfg.Registerer)
	m := &metrics{
		keys: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_service_keys_total", Help: "Keys in replies to clients. The keys of a repeated request are counted again.",
		}, []string{"client"}),
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_service_requests_total",
			Help: "Requests of clients, by procedure and by the status code of the reply. The code unread counts requests whose message is malformed, too large or did not arrive.",
		}, []string{"procedure", "code"}),
	}
	for _, c := range cfg.Clients {
		m.keys.WithLabelValues(c.Name)
	}
	return m
}

func (m *metrics) handedOut(c *client, keys int) { m.keys.WithLabelValues(c.name).Add(float64(keys)) }

func (m *metrics) answered(spec connect.Spec, code string) {
	m.requests.WithLabelValues(path.Base(spec.Procedure), code).Inc()
}
