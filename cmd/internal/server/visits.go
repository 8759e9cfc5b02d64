package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs"
	"keypool/shortener/visits"
	"keypool/web"
)

// openVisits counts visits, and removes old counts, until p stops. With VISITS=off, openVisits counts no visits and returns nil, but
// still removes the old counts that the database has from an earlier setting. The caller must call ServePublic after openVisits: p
// stops its parts in reverse order, so all requests end before the last flush.
func openVisits(p *program.Program, c *app.Core, connections *pgxpool.Pool, s config.Serve) *web.Visits {
	store := visitStore(c, connections)
	expireVisits(p, c, store, time.Duration(s.VisitsKeep))
	if s.Visits == "off" {
		return nil
	}
	if s.CountryHeader != "" && len(s.TrustedProxies) == 0 {
		c.Log.Warn("countries are not counted, because only trusted proxies may send the header with the country; set TRUSTED_PROXIES",
			slog.String("header", string(s.CountryHeader)))
	}
	c.ShowSetting("shortener_visits_flush_seconds", "Seconds between two flushes of the counts of visits: VISITS_FLUSH.", time.Duration(s.VisitsFlush).Seconds())
	flushes := kgs.NewFailureLog(c.Log, "store the counts of visits")
	counter := visits.New(visits.Config{
		Store: store, Detail: s.Visits == "detail", Flush: time.Duration(s.VisitsFlush), MaxRows: countedRows(), PartFacets: store.PartFacets(),
		Metrics: visits.NewMetrics(c.Registry), Note: flushes.Note,
	})
	p.Background("visits", p.Fail, counter.Run)
	return &web.Visits{Counter: counter, Store: store, CountryHeader: string(s.CountryHeader), Keep: time.Duration(s.VisitsKeep)}
}

// expireVisits removes old counts until p stops.
func expireVisits(p *program.Program, c *app.Core, store visits.Store, keep time.Duration) {
	removals := kgs.NewFailureLog(c.Log, "remove old counts of visits")
	p.Background("old visits", p.Fail, func(ctx context.Context) error { return store.Expire(ctx, keep, removals.Note) })
}

// visitStore returns the store of the counts in the database of c.
func visitStore(c *app.Core, connections *pgxpool.Pool) visits.Store {
	if c.SQLite != nil {
		return visits.SQLite(c.SQLite.Scan, c.SQLite.Write)
	}
	db := stdlib.OpenDBFromPool(connections)
	c.OnStop("visits", func(context.Context) error { return db.Close() })
	return visits.Postgres(db)
}
