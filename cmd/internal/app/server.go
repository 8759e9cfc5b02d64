package app

import (
	"context"
	"log/slog"
	"net/http"

	"keypool/cmd/internal/config"
	"keypool/shortener"
	"keypool/web"
)

// StartServer starts the shortener and returns when the public listener answers. It needs settings
// that are complete. After an error, it closes what it opened.
func StartServer(ctx context.Context, s config.Server, log *slog.Logger) (*Program, error) {
	public := address{"LISTEN_ADDR", s.ListenAddr}
	return startProgram(ctx, s.Common, &public, log, func(ctx context.Context, p *Program, c *core) error {
		chain, err := c.openChain(ctx, s.Serve, p.fail)
		if err != nil {
			return err
		}
		service := shortener.New(shortener.Config{
			Store: c.store, Keys: chain.keys, Metrics: shortener.NewMetrics(c.registry),
		})
		p.life.onStop("links", func(ctx context.Context) error {
			return waitFor(ctx, func() error { return service.Close(ctx) }) // a commit of SQLite ignores its context
		})

		gauges := newGauges(chain.status, chain.counters)
		c.registry.MustRegister(gauges)
		p.serveAdmin(c, web.AdminConfig{
			Ready: service.Ready, Degraded: chain.degraded, Status: chain.status,
		})
		p.serve("public listener", publicServer(s.Serve, c, chain, service), p.public, publicGrace)
		log.Info("serving", slog.String("url", localURL(p.public.Addr())), slog.String("admin", localURL(p.admin.Addr())),
			slog.String("key_source", s.KeySource))
		return nil
	})
}

func publicServer(s config.Serve, c *core, chain *chain, service *shortener.Service) *http.Server {
	return web.NewServer(web.NewPublic(web.PublicConfig{
		Service: service, BaseURL: string(s.BaseURL), TrustedProxies: s.TrustedProxies,
		Degraded: chain.degraded, Registerer: c.registry, Logger: c.log,
	}), c.log)
}
