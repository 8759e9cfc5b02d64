package app

import (
	"context"
	"log/slog"
	"net/http"

	"keypool/shortener"
	"keypool/web"
)

// StartServer starts the shortener: it returns when the public listener answers.
// What was opened before an error is closed again.
func StartServer(ctx context.Context, s ServeSettings, log *slog.Logger) (_ *Program, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p := newProgram(log)
	defer func() {
		if err != nil {
			p.abandonStart()
		}
	}()
	if p.public, err = p.listen(ctx, "LISTEN_ADDR", s.ListenAddr); err != nil {
		return nil, err
	}
	if p.admin, err = p.listen(ctx, "ADMIN_ADDR", s.AdminAddr); err != nil {
		return nil, err
	}
	c, err := openCore(ctx, s.Settings, &p.life, log)
	if err != nil {
		return nil, err
	}
	if err := c.openLedger(ctx); err != nil {
		return nil, err
	}
	chain, err := c.openChain(ctx, s, p.fail)
	if err != nil {
		return nil, err
	}
	service := shortener.New(shortener.Config{
		Store: c.store, Keys: chain.keys, Metrics: shortener.NewMetrics(c.registry),
	})
	p.life.onStop("links", service.Close)

	gauges := newGauges(chain.status, chain.counters)
	c.registry.MustRegister(gauges)
	p.serveAdmin(c, web.AdminConfig{
		Ready: service.Ready, Degraded: chain.degraded, Status: chain.status,
	})
	p.serve("public listener", publicServer(s, c, chain, service), p.public, publicGrace)
	log.Info("serving", slog.String("url", localURL(p.public.Addr())), slog.String("admin", localURL(p.admin.Addr())),
		slog.String("key_source", s.KeySource))
	return p, nil
}

func publicServer(s ServeSettings, c *core, chain *chain, service *shortener.Service) *http.Server {
	return web.NewServer(web.NewPublic(web.PublicConfig{
		Service: service, BaseURL: s.BaseURL, TrustedProxies: s.TrustedProxies,
		Degraded: chain.degraded, Registerer: c.registry, Logger: c.log,
	}), c.log)
}
