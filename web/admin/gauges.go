package admin

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges are metrics whose values are read at each scrape. All of them are gauges except
// kgs_keys_reserved_total, which is a counter. A metric with an unknown value is omitted, so that no old
// value is exported.
type gauges struct {
	status func() Status

	pool, epoch, capacity, evict, local, runway, used, spaceRunway, reserved, breakerState, serving *prometheus.Desc
}

var _ prometheus.Collector = (*gauges)(nil)

// NewGauges returns the metrics that report status.
func NewGauges(status func() Status) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &gauges{
		status:       status,
		pool:         desc("kgs_pool_keys", "Keys in the pool."),
		epoch:        desc("kgs_pool_epoch", "Epoch of the pool in Redis. A new epoch begins when Redis may have lost keys of the pool, or when the ledger skips ahead."),
		capacity:     desc("kgs_pool_capacity_keys", "Keys in a full pool."),
		evict:        desc("kgs_pool_may_evict", "1 if Redis may evict keys of the pool because its maxmemory-policy is not noeviction, otherwise 0."),
		local:        desc("kgs_local_keys", "Keys in this server's local batch."),
		runway:       desc("kgs_runway_seconds", "Seconds until the pool is empty at the rate at which all servers that share the pool take keys. 0 while the pool is empty. +Inf while servers take no keys from a pool that has keys, and while an empty pool fills for the first time in its epoch."),
		used:         desc("kgs_space_used_ratio", "Fraction of the space of the current code length that is reserved."),
		spaceRunway:  desc("kgs_space_runway_seconds", "Seconds until the ledger has reserved all numbers of the current code length, at the rate at which servers take keys. Without a pool in Redis, this rate is an average over up to 24 hours. +Inf while the rate is below 0.01 keys per second."),
		reserved:     desc("kgs_keys_reserved_total", "Numbers that all processes have reserved in the ledger."),
		breakerState: desc("kgs_breaker_state", "State of the circuit breaker for Redis, a remote KGS or the ticket databases: 0 closed, 1 half-open, 2 open."),
		serving:      desc("kgs_serving_from", "1 for the place that this server's next key comes from (batch, fallback or none), 0 for the other places.", "source"),
	}
}

// Describe sends every metric that Collect may send.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.pool, g.epoch, g.capacity, g.evict, g.local, g.runway, g.used, g.spaceRunway, g.reserved, g.breakerState, g.serving,
	} {
		ch <- d
	}
}

// Collect sends the gauges whose values are known.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.status()
	send(ch, g.pool, s.PoolKeys)
	send(ch, g.epoch, s.Epoch)
	send(ch, g.capacity, s.CapacityKeys)
	if s.MayEvict != nil {
		ch <- prometheus.MustNewConstMetric(g.evict, prometheus.GaugeValue, oneIf(*s.MayEvict))
	}
	send(ch, g.local, s.LocalKeys)
	send(ch, g.runway, runwayOf(s.RunwaySeconds, s.poolIdle()))
	send(ch, g.used, s.SpaceUsedRatio)
	send(ch, g.spaceRunway, runwayOf(s.SpaceRunwaySeconds, s.spaceIdle()))
	if s.KeysReserved != nil {
		ch <- prometheus.MustNewConstMetric(g.reserved, prometheus.CounterValue, float64(*s.KeysReserved))
	}
	if s.Breaker != nil {
		states := map[string]float64{"closed": 0, "half-open": 1, "open": 2}
		ch <- prometheus.MustNewConstMetric(g.breakerState, prometheus.GaugeValue, states[*s.Breaker])
	}
	if s.ServingFrom != nil {
		for _, source := range []string{"batch", "fallback", "none"} {
			ch <- prometheus.MustNewConstMetric(g.serving, prometheus.GaugeValue, oneIf(*s.ServingFrom == source), source)
		}
	}
}

// runwayOf returns a runway of Status as the value of a metric. The metric is infinite if idle is true. Status has nil
// instead, because JSON cannot express infinity.
func runwayOf(seconds *float64, idle bool) *float64 {
	if idle {
		return new(math.Inf(1))
	}
	return seconds
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func send[T int64 | float64](ch chan<- prometheus.Metric, d *prometheus.Desc, v *T) {
	if v != nil {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*v))
	}
}
