package app

import (
	"context"
	"log/slog"

	"keypool/shortener"
	"keypool/web"
	"keypool/web/admin"
	"keypool/web/httpserver"
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
		links, requests := shortener.NewMetrics(c.registry), web.NewMetrics(c.registry)
		service := shortener.New(shortener.Config{Store: c.store, Keys: chain.keys, Metrics: links})
		p.life.onStop("links", func(ctx context.Context) error {
			return waitFor(ctx, func() error { return service.Close(ctx) }) // a commit of SQLite heeds no context
		})

		gauges := newGauges(chain.status, chain.counters)
		c.registry.MustRegister(gauges)
		p.serveAdmin(c, admin.Config{
			Ready: service.Ready, Degraded: chain.degraded, Status: chain.status,
			Counters: admin.Counters{
				Created: links.Created, Taken: links.KeysTaken,
				Redirects: requests.Redirects, Failed: requests.Failed,
				Create: requests.CreateLatency(), Redirect: requests.RedirectLatency(),
			},
		})
		handler := web.NewPublic(web.PublicConfig{
			Service: service, BaseURL: s.BaseURL, TrustedProxies: s.TrustedProxies,
			Degraded: chain.degraded, Metrics: requests, Logger: c.log,
		})
		p.serve("public listener", httpserver.New(handler, c.log), p.public, publicGrace)
		log.Info("serving", slog.String("url", localURL(p.public.Addr())), slog.String("admin", localURL(p.admin.Addr())),
			slog.String("key_source", s.KeySource))
		return nil
	})
}
