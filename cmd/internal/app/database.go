package app

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// databaseURL is a DATABASE_URL that was found to be sound.
type databaseURL struct {
	sqlitePath string          // "" for PostgreSQL
	postgres   *pgxpool.Config // nil for SQLite
}

func (p *parser) database(name, text string) databaseURL {
	const takes = "sqlite:PATH or postgres://user:password@host:port/database"
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		if path == "" || strings.Contains(path, ":memory:") {
			p.refuse(name, text, takes+"; a database in memory would lose every link")
		}
		return databaseURL{sqlitePath: path}
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		p.refuse(name, withoutSecrets(text), takes)
		return databaseURL{}
	}
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		p.refuse(name, withoutSecrets(text), takes)
		return databaseURL{}
	}
	if !strings.Contains(text, "pool_max_conns=") {
		cfg.MaxConns = linkConns
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	return databaseURL{postgres: cfg}
}

const (
	// linkConns is enough for look-ups beside the commits, and eight servers stay below
	// PostgreSQL's default of 100 connections; pool_max_conns in the URL overrides it.
	linkConns      = 8
	ledgerConns    = 3
	connectTimeout = 2 * time.Second
	// ledgerConnLife gets the ledger off a primary that was demoted: it is only found
	// out when connecting, and its few connections cost little to renew.
	ledgerConnLife = time.Minute
)

// ledgerPool is for the ledger, and for tickets. Changes of the ledger wait for each other's
// row lock, and must not keep links from their connections while they do.
func (d databaseURL) ledgerPool() *pgxpool.Config {
	cfg := d.postgres.Copy()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = ledgerConns, 0, 0
	cfg.MaxConnLifetime = ledgerConnLife
	return cfg
}
