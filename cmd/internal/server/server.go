// Package server connects the parts of the program shortener. Package app sets up the key sources and the admin
// listener. Package server adds the links, their store and the public listener. The vocabulary is in docs/glossary.md.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/cmd/internal/version"
	"keypool/kgs"
	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/web"
	"keypool/web/admin"
	"keypool/web/httpserver"
)

// Start starts the shortener and returns when the public listener answers. The caller must have
// called s.Complete. If Start fails, it closes everything that it opened.
//
// If the table links_earlier contains links, Start first moves these links to their tables (see package
// reorder). The move has no time limit. With MIGRATE=false, Start returns errLinksNotMoved instead.
func Start(ctx context.Context, s config.Server, log *slog.Logger) (*program.Program, error) {
	p, err := startServer(ctx, s, log)
	if !errors.Is(err, errLinksNotMoved) || !s.Migrate.On {
		return p, err
	}
	if err := migrateDatabase(ctx, s, log); err != nil {
		return nil, err
	}
	return startServer(ctx, s, log)
}

// forgetKeys removes old idempotency keys until p stops.
func forgetKeys(p *program.Program, c *app.Core, store shortener.Store) {
	removals := kgs.NewFailureLog(c.Log, "remove old idempotency keys")
	p.Background("idempotency keys", p.Fail, func(ctx context.Context) error { return service.ForgetKeys(ctx, store, removals.Note) })
}

func startServer(ctx context.Context, s config.Server, log *slog.Logger) (*program.Program, error) {
	blocked, err := openBlockFile(s.BlockHosts, log)
	if err != nil {
		return nil, err
	}
	public := program.Address{Setting: "LISTEN_ADDR", Addr: s.ListenAddr}
	return app.Start(ctx, s.Common, &public, log, func(ctx context.Context, p *program.Program, c *app.Core) error {
		chain, err := c.OpenChain(ctx, s.Serve, p.Fail)
		if err != nil {
			return err
		}
		// Call openStore after OpenChain. OpenChain registers this process as a holder in the ledger. While a holder
		// sends heartbeats, reindex does not change the order of the links, so the order that openStore reads stays
		// valid.
		connections, err := openConnections(ctx, c)
		if err != nil {
			return err
		}
		store, order, err := openStore(ctx, c, connections, s.KeySource, openOrder)
		if err != nil {
			return err
		}
		store, placement, err := openNodes(ctx, p, c, store, order, connections)
		if err != nil {
			return err
		}
		lookup, replicas, err := openReplicas(ctx, p, c, store, s.Serve)
		if err != nil {
			return err
		}
		tokens, err := openPolled(ctx, p, c, connections, order)
		if err != nil {
			return err
		}
		forgetKeys(p, c, store)
		linkMetrics, requests := service.NewMetrics(c.Registry), web.NewMetrics(c.Registry)
		links := openLinks(c, service.Config{
			Store: store, Placement: placement, Keys: keys{chain.Keys()}, Lookup: lookup, Replicas: replicas, Metrics: linkMetrics,
			CacheSize: cachedLinks(), OwnHosts: ownHosts(s.OwnHosts), Readers: readers(c, connections),
		})

		visited := openVisits(p, c, connections, s.Serve)
		watchBlockFile(p, blocked, links)
		c.ServeAdmin(p, admin.Config{
			Ready: links.Ready, Degraded: chain.Degraded, Links: adminUI(p, s.Serve, links, tokens, visited, c.Log),
			Status: func() admin.Status {
				status := chain.Status()
				status.Limits = describeLimits(s.Serve, requests.Limited())
				return status
			},
			Counters: counters(linkMetrics, requests),
		})
		handler := web.NewPublic(web.PublicConfig{
			Service: links, BaseURL: string(s.BaseURL), TrustedProxies: s.TrustedProxies,
			Degraded: chain.Degraded, Metrics: requests, Logger: c.Log, Tokens: tokens, Limits: limits(s.Serve),
			Visits: visited, RedirectAge: new(time.Duration(s.RedirectAge) * time.Second),
			HomeURL: string(s.HomeURL), NotFoundURL: string(s.NotFoundURL), ReportURL: string(s.ReportURL),
			UI: publicUI(s.Serve, tokens),
		})
		c.LimitConnections(p, s.TrustedProxies, app.ConnectionMemory)
		p.ServePublic("public listener", httpserver.New(handler, c.Log))
		logStart(log, p, c, s, chain.Pooled())
		return nil
	})
}

func counters(links *service.Metrics, requests *web.Metrics) admin.Counters {
	return admin.Counters{
		Created: links.Created, Taken: links.KeysTaken,
		Redirects: requests.Redirects, Failed: requests.Failed,
		Create: requests.CreateLatency(), Redirect: requests.RedirectLatency(),
	}
}

// openPolled starts two tasks that read the database at short intervals. One task ends the program if the order of the links
// has changed. The other task keeps the tokens up to date.
func openPolled(ctx context.Context, p *program.Program, c *app.Core, connections *pgxpool.Pool, order shortener.Order) (*token.Registry, error) {
	polls, err := openPolls(ctx, c)
	if err != nil {
		return nil, err
	}
	watchOrder(p, c, polls, order)
	return openTokens(ctx, p, c, polls, connections)
}

// openLinks starts the service of the links, which runs until the program stops.
func openLinks(c *app.Core, cfg service.Config) *service.Service {
	links := service.New(cfg)
	c.OnStop("links", func(ctx context.Context) error {
		return program.WaitFor(ctx, func() error { return links.Close(ctx) }) // a SQLite commit ignores its context
	})
	return links
}

// logStart logs the addresses of the server and its most important settings.
func logStart(log *slog.Logger, p *program.Program, c *app.Core, s config.Server, pooled bool) {
	l := describeLimits(s.Serve, web.Limited{})
	attrs := []any{
		slog.String("url", p.URL()), slog.String("admin", p.AdminURL()), slog.String("version", version.Number()),
		slog.String("database", c.Engine()), slog.String("key_source", s.KeySource),
	}
	if pooled {
		attrs = append(attrs, slog.Int64("pool_capacity_keys", s.PoolCapacity))
	}
	log.Info("serving", append(attrs,
		slog.Bool("anonymous", l.Anonymous), slog.String("anonymous_rate", l.AnonymousRate), slog.Int("miss_rate", l.MissRate))...)
}

// keys implements [shortener.Keys] with a [kgs.Generator].
type keys struct{ generator kgs.Generator }

var _ shortener.Keys = keys{}

// Next implements [shortener.Keys].
func (k keys) Next(ctx context.Context, url string, attempt int) (shortener.Key, error) {
	key, err := k.generator.Next(ctx, url, attempt)
	if err != nil {
		return shortener.Key{}, fmt.Errorf("%w: %w", shortener.ErrKeysExhausted, err)
	}
	out := shortener.Key{Code: key.Code, Source: key.Source, Again: key.Again}
	if key.Batch != nil { // an interface that holds a nil pointer is not nil
		out.Batch = key.Batch
	}
	return out, nil
}
