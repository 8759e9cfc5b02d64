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
func StartServer(ctx context.Context, s ServeSettings, log *slog.Logger) (*Program, error) {
	public := address{"LISTEN_ADDR", s.ListenAddr}
	return startProgram(ctx, s.Settings, &public, log, func(ctx context.Context, p *Program, c *core) error {
		chain, err := c.openChain(ctx, s, p.fail)
		if err != nil {
			return err
		}
		service := shortener.New(shortener.Config{
			Store: c.store, Keys: chain.keys, Metrics: shortener.NewMetrics(c.registry),
		})
		p.life.onStop("links", func(ctx context.Context) error {
			return waitFor(ctx, func() error { return service.Close(ctx) }) // a commit of SQLite heeds no context
		})

		gauges := newGauges(chain.status, chain.counters)
		c.registry.MustRegister(gauges)
		p.serveAdmin(c, web.AdminConfig{
			Ready: service.Ready, Degraded: chain.degraded, Status: chain.status,
		})
		p.serve("public listener", publicServer(s, c, chain, service), p.public, publicGrace)
		log.Info("serving", slog.String("url", localURL(p.public.Addr())), slog.String("admin", localURL(p.admin.Addr())),
			slog.String("key_source", s.KeySource))
		return nil
	})
}

func publicServer(s ServeSettings, c *core, chain *chain, service *shortener.Service) *http.Server {
	return web.NewServer(web.NewPublic(web.PublicConfig{
		Service: service, BaseURL: s.BaseURL, TrustedProxies: s.TrustedProxies,
		Degraded: chain.degraded, Registerer: c.registry, Logger: c.log,
	}), c.log)
}
