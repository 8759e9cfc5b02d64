package config

import (
	"encoding"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	_ encoding.TextUnmarshaler = (*Database)(nil)
	_ encoding.TextUnmarshaler = (*DatabasePair)(nil)
	_ encoding.TextUnmarshaler = (*Replicas)(nil)
	_ encoding.TextUnmarshaler = (*Lag)(nil)
)

const (
	// linkConns is enough for look-ups and commits at the same time. Without ticket databases, a server has at most
	// linkConns + ledgerConns + pollConns = 12 connections to its database. So eight servers have at most 96 connections,
	// and the default limit of PostgreSQL is 100. A start may need a few more connections for some minutes. pool_max_conns
	// in the URL overrides linkConns.
	linkConns   = 8
	ledgerConns = 3
	// pollConns is enough for short queries at intervals. Such a query must not wait for lists of links or locks of the ledger.
	pollConns = 1
	// connectTimeout limits the time in which a connection opens. A busy database needs seconds after a restart, because it
	// starts a process for each connection of all clients. If clients gave up earlier, the database would spend its time on
	// connections that no client uses.
	connectTimeout = 10 * time.Second
	// hostTimeout replaces connectTimeout if the URL names several hosts. A host that hangs delays each connection to the
	// next host by up to this time.
	hostTimeout = 3 * time.Second
	// maxHostTimeout limits the parameter connect_timeout if the URL names several hosts. With a longer limit, one host that hangs
	// could make a start take longer than program.StartTimeout.
	maxHostTimeout = 5 * time.Second
	// dialTimeout limits one attempt to open a TCP connection to a host. The limit is short, so that a new attempt begins soon
	// after the host has become reachable again.
	dialTimeout = 2 * time.Second
	// ledgerConnLife limits how long the ledger can use a demoted primary: pgx checks the role of the
	// server (target_session_attrs) only when it opens a connection. The ledger has few connections, so
	// their renewal is cheap.
	ledgerConnLife = time.Minute
)

// Database is a database of links, of the ledger or of tickets. Exactly one field is set. Two values for PostgreSQL are
// equal (==) only if they have the same pointer.
type Database struct {
	SQLitePath string
	Postgres   *pgxpool.Config
}

const takesDatabase = "sqlite:PATH or postgres://user:password@host:port/database"

// UnmarshalText takes sqlite:PATH or a PostgreSQL URL with the parameters of pgxpool.
func (d *Database) UnmarshalText(text []byte) error {
	raw := string(text)
	if path, ok := strings.CutPrefix(raw, "sqlite:"); ok {
		if err := checkPath(path, raw); err != nil {
			return err
		}
		*d = Database{SQLitePath: path}
		return nil
	}
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return &Error{Got: Redacted(raw), Takes: takesDatabase}
	}
	cfg, err := pgxpool.ParseConfig(raw)
	if err != nil { // the error may quote a part of the password
		if name := badParameter(raw); name != "" {
			return &Error{Got: "an invalid value of the parameter " + name, Takes: takesDatabase}
		}
		return &Error{Got: Redacted(raw), Takes: takesDatabase}
	}
	if conn := cfg.ConnConfig; strings.Contains(conn.Host+conn.Database, "@") { // a part of the password, which later errors would quote
		return &Error{Got: "a host or a database with the character @", Takes: takesDatabase + "; in a password, write @ as %40 and / as %2F"}
	}
	if !strings.Contains(raw, "pool_max_conns=") {
		cfg.MaxConns = linkConns
	}
	if OtherHost(cfg) >= 0 && cfg.ConnConfig.ConnectTimeout > maxHostTimeout {
		return &Error{Got: fmt.Sprintf("connect_timeout=%.0f and several hosts", cfg.ConnConfig.ConnectTimeout.Seconds()),
			Takes: fmt.Sprintf("a connect_timeout of at most %.0f for several hosts", maxHostTimeout.Seconds())}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
		if OtherHost(cfg) >= 0 {
			cfg.ConnConfig.ConnectTimeout = hostTimeout
		}
		cfg.ConnConfig.DialFunc = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	*d = Database{Postgres: cfg}
	return nil
}

// checkPath returns an error if path cannot be the path of a SQLite database. raw is the whole value of the setting.
func checkPath(path, raw string) error {
	switch {
	case path == "" || strings.Contains(path, ":memory:"):
		return &Error{Got: raw, Takes: takesDatabase + "; a database in memory would lose every link"}
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"), strings.Contains(path, "?"):
		return &Error{Got: raw, Takes: takesDatabase + "; after sqlite: comes the path itself, without a host and without parameters"}
	}
	return nil
}

// badParameter returns the name of a parameter whose removal makes the URL of a PostgreSQL database valid, or "" if there is none.
func badParameter(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	for name := range u.Query() {
		rest, without := u.Query(), *u
		rest.Del(name)
		without.RawQuery = rest.Encode()
		if _, err := pgxpool.ParseConfig(without.String()); err == nil {
			return name
		}
	}
	return ""
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

// PollPool returns the settings of the PostgreSQL connection on which a server reads the tokens and the order of the links
// at short intervals.
func (d Database) PollPool() *pgxpool.Config {
	cfg := d.LedgerPool()
	cfg.MaxConns = pollConns
	return cfg
}

// DatabasePair holds the database of odd ticket numbers and the database of even ticket numbers.
type DatabasePair [2]Database

// UnmarshalText takes two databases, separated by a comma.
func (p *DatabasePair) UnmarshalText(text []byte) error {
	urls := splitDatabases(string(text))
	if len(urls) != len(p) {
		return &Error{Got: fmt.Sprintf("a list of length %d", len(urls)), Takes: "two databases, separated by a comma; each is sqlite:PATH or postgres://..."}
	}
	for i, url := range urls {
		if err := p[i].UnmarshalText([]byte(url)); err != nil {
			return err
		}
	}
	return nil
}

// Replicas are read-only copies of a PostgreSQL database.
type Replicas []Database

const takesReplicas = "postgres://... URLs of replicas of DATABASE_URL, separated by commas, each with one host"

// UnmarshalText takes PostgreSQL URLs, separated by commas.
func (r *Replicas) UnmarshalText(text []byte) error {
	for _, url := range splitDatabases(string(text)) {
		var d Database
		if err := d.UnmarshalText([]byte(url)); err != nil || d.Postgres == nil || OtherHost(d.Postgres) >= 0 {
			return &Error{Got: Redacted(url), Takes: takesReplicas}
		}
		*r = append(*r, d)
	}
	return nil
}

// OtherHost returns the index of the first entry of cfg.ConnConfig.Fallbacks whose host or port differs from the first host and
// port of the URL. It returns -1 if the URL names one server. The entries before the index are second attempts at the first
// server, with or without TLS. The URL of a replica must name one server, because pgx could connect to any of several servers,
// and the lag of each replica must be known.
func OtherHost(cfg *pgxpool.Config) int {
	return slices.IndexFunc(cfg.ConnConfig.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != cfg.ConnConfig.Host || f.Port != cfg.ConnConfig.Port
	})
}

// nextDatabase matches a comma between two database URLs, but not a comma between the hosts of
// one URL.
var nextDatabase = regexp.MustCompile(`,\s*(sqlite:|[a-z]+://)`)

// splitDatabases returns the URLs of a list of databases.
func splitDatabases(list string) (urls []string) {
	begin := 0
	for _, comma := range nextDatabase.FindAllStringIndex(list, -1) {
		urls = append(urls, strings.TrimSpace(list[begin:comma[0]]))
		begin = comma[0] + 1
	}
	return append(urls, strings.TrimSpace(list[begin:]))
}

// Lag is the longest time by which a replica may lag.
type Lag time.Duration

// UnmarshalText takes a Go duration from 500ms to 1m. The minimum leaves time for the measurement of the lag.
func (l *Lag) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 500*time.Millisecond || d > time.Minute {
		return &Error{Got: string(text), Takes: "a duration from 500ms to 1m, such as 1s"}
	}
	*l = Lag(d)
	return nil
}
