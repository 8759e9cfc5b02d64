package config

import (
	"encoding"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	_ encoding.TextUnmarshaler = (*Database)(nil)
	_ encoding.TextUnmarshaler = (*DatabasePair)(nil)
)

const (
	// linkConns is enough for look-ups and commits at the same time. With it, eight servers need
	// fewer than 100 connections, the default limit of PostgreSQL. pool_max_conns in the URL
	// overrides it.
	linkConns      = 8
	ledgerConns    = 3
	connectTimeout = 2 * time.Second
	// ledgerConnLife limits how long the ledger can use a demoted primary, because only a new
	// connection checks the role of the server. The ledger has few connections, so their renewal
	// is cheap.
	ledgerConnLife = time.Minute
)

// Database is a database of links, of the ledger or of tickets. Exactly one field is set. Two
// values are equal if they are copies of one setting.
type Database struct {
	SQLitePath string
	Postgres   *pgxpool.Config
}

const takesDatabase = "sqlite:PATH or postgres://user:password@host:port/database"

// UnmarshalText takes sqlite:PATH or a PostgreSQL URL with the parameters of pgxpool.
func (d *Database) UnmarshalText(text []byte) error {
	raw := string(text)
	if path, ok := strings.CutPrefix(raw, "sqlite:"); ok {
		if path == "" || strings.Contains(path, ":memory:") {
			return &Error{Got: raw, Takes: takesDatabase + "; a database in memory would lose every link"}
		}
		*d = Database{SQLitePath: path}
		return nil
	}
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return &Error{Got: Redacted(raw), Takes: takesDatabase}
	}
	cfg, err := pgxpool.ParseConfig(raw)
	if err != nil { // the error may quote a part of the password
		return &Error{Got: Redacted(raw), Takes: takesDatabase}
	}
	if !strings.Contains(raw, "pool_max_conns=") {
		cfg.MaxConns = linkConns
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	*d = Database{Postgres: cfg}
	return nil
}

// LedgerPool returns the settings of the PostgreSQL connections for the ledger and for tickets.
// Links have their own connections: changes of the ledger wait for row locks, and must not occupy
// the connections of the links while they wait.
func (d Database) LedgerPool() *pgxpool.Config {
	cfg := d.Postgres.Copy()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = ledgerConns, 0, 0
	cfg.MaxConnLifetime = ledgerConnLife
	return cfg
}

// DatabasePair holds the database of odd ticket numbers and the database of even ticket numbers.
type DatabasePair [2]Database

// nextDatabase matches a comma between two database URLs, but not a comma between the hosts of
// one URL.
var nextDatabase = regexp.MustCompile(`,\s*(sqlite:|postgres://|postgresql://)`)

// UnmarshalText takes two databases, separated by a comma.
func (p *DatabasePair) UnmarshalText(text []byte) error {
	raw := string(text)
	commas := nextDatabase.FindAllStringIndex(raw, -1)
	if len(commas) != 1 {
		return &Error{Got: fmt.Sprintf("%d commas before a URL of a database", len(commas)), Takes: "two databases, separated by a comma; each is sqlite:PATH or postgres://..."}
	}
	odd, even := raw[:commas[0][0]], strings.TrimSpace(raw[commas[0][0]+1:])
	if err := p[0].UnmarshalText([]byte(odd)); err != nil {
		return err
	}
	return p[1].UnmarshalText([]byte(even))
}
