package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// ShowSetting exports the value of a setting as a gauge, so that alert rules follow the settings of each process. It
// panics if the registry already has the gauge.
func (c *Core) ShowSetting(name, help string, value float64) {
	promauto.With(c.Registry).NewGauge(prometheus.GaugeOpts{Name: name, Help: help}).Set(value)
}

// showLevels exports the levels of the dead man's switch, in keys.
func (c *Core) showLevels(restart, page int64) {
	c.ShowSetting("kgs_pool_restart_below_keys",
		"Keys in the pool below which the dead man's switch restarts the worker: KGS_RESTART_BELOW.", float64(restart))
	c.ShowSetting("kgs_pool_page_below_keys",
		"Keys in the pool below which the dead man's switch pages an operator: KGS_PAGE_BELOW.", float64(page))
}
