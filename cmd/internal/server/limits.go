package server

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/internal/quota"
	"keypool/web"
	"keypool/web/admin"
	"keypool/web/client"
)

// limits returns the limits of the public listener.
func limits(s config.Serve) client.Limits {
	return client.Limits{
		MissRate: s.MissRate, MissBurst: s.MissBurst,
		AnonymousRate: s.AnonymousRate.Limit(), AnonymousMaxAge: time.Duration(s.AnonymousMaxAge), TokensOnly: !s.Anonymous.On,
		Clients: limitedClients(),
	}
}

// readers returns how many queries for lists of links and for visits may run at the same time. With two or more connections
// to PostgreSQL, at least half of the connections stay free for redirects and creations.
func readers(c *app.Core, connections *pgxpool.Pool) int {
	if c.SQLite != nil {
		return c.SQLite.Scan.Stats().MaxOpenConnections
	}
	return max(1, int(connections.Config().MaxConns)/2)
}

// describeLimits returns the limits for /status.
func describeLimits(s config.Serve, refused web.Limited) *admin.Limits {
	l := &admin.Limits{
		Anonymous: s.Anonymous.On, AnonymousRate: client.DefaultAnonymousRate.String(),
		MissRate: s.MissRate, MissBurst: s.MissBurst,
		Refused: admin.Refused{Anonymous: int64(refused.Anonymous), Token: int64(refused.Token), Miss: int64(refused.Miss)},
	}
	if rate := s.AnonymousRate.Limit(); rate != nil {
		l.AnonymousRate, l.LoopbackLimited = rate.String(), *rate != quota.Off
	}
	if s.AnonymousMaxAge > 0 {
		seconds := time.Duration(s.AnonymousMaxAge).Seconds()
		l.AnonymousMaxAge = &seconds
	}
	return l
}
