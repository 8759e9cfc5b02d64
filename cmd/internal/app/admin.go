package app

import "keypool/web"

// serveAdmin answers on the admin listener and feeds its dashboard; what all programs have
// alike it enters into cfg itself.
func (p *Program) serveAdmin(c *core, cfg web.AdminConfig) {
	cfg.Gatherer, cfg.Instance, cfg.Logger = c.registry, c.instance, c.log
	cfg.RestartBelow, cfg.PageBelow = c.RestartBelow, c.PageBelow
	admin := web.NewAdmin(cfg)
	p.serve("admin listener", web.NewAdminServer(admin, c.log), p.admin, adminGrace)
	// Ends before the listener does, and every stream with it: none holds up the stop.
	p.life.background("dashboard", p.fail, admin.Run)
}
