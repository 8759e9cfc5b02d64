package app

import (
	"keypool/web/admin"
	"keypool/web/httpserver"
)

// ServeAdmin serves the admin listener and samples for its dashboard. It sets the fields of cfg that
// are the same for both programs.
func (p *Program) ServeAdmin(c *Core, cfg admin.Config) {
	cfg.Gatherer, cfg.Instance, cfg.Logger = c.Registry, c.instance, c.Log
	cfg.RestartBelow, cfg.PageBelow = c.RestartBelow.Keys(c.PoolCapacity), c.PageBelow.Keys(c.PoolCapacity)
	cfg.Counters.Refilled = c.metrics.Generated
	handler := admin.New(cfg)
	p.serve("admin listener", httpserver.NewAdmin(handler, c.Log), p.admin, adminGrace)
	// It ends before the listener does, and ends every event stream, so that none delays the stop.
	p.life.background("dashboard", p.Fail, handler.Run)
}
