package app

import (
	"keypool/web/admin"
	"keypool/web/httpserver"
)

// serveAdmin answers on the admin listener and takes the samples of its dashboard. It
// adds to cfg what all programs have in common.
func (p *Program) serveAdmin(c *core, cfg admin.Config) {
	cfg.Gatherer, cfg.Instance, cfg.Logger = c.registry, c.instance, c.log
	cfg.RestartBelow, cfg.PageBelow = c.RestartBelow, c.PageBelow
	cfg.Counters.Refilled = c.metrics.Generated
	handler := admin.New(cfg)
	p.serve("admin listener", httpserver.NewAdmin(handler, c.log), p.admin, adminGrace)
	// Stops before the listener does and ends every stream, so none delays the stop.
	p.life.background("dashboard", p.fail, handler.Run)
}
