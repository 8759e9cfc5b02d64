package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/program"
)

// setKeepalives makes PostgreSQL end a connection whose client has not answered for 10 s + 3 * 5 s = 25 s. Without these settings,
// PostgreSQL keeps a connection by default for two hours after a network partition has broken it. Such connections count towards
// max_connections, so PostgreSQL may refuse new connections of the same client. (PostgreSQL manual, 20.3.2.)
const setKeepalives = `SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000`

// setIsolation sets the isolation level of the transactions that do not state a level. At the level repeatable read, concurrent
// inserts of the same alias and concurrent changes of the same link would fail. (PostgreSQL manual, 13.2.)
const setIsolation = `SET default_transaction_isolation = 'read committed'`

// setDurable makes PostgreSQL report the success of a commit only after the commit is durable, also on a synchronous
// standby. It overrides the defaults off and local of synchronous_commit. A later change of the default has no effect on a
// connection with this setting. (PostgreSQL manual, 20.5.1.)
const setDurable = `SELECT set_config('synchronous_commit', CASE WHEN value IN ('off', 'local') THEN 'on' ELSE value END, false)
	FROM current_setting('synchronous_commit') AS value`

// selectDefault returns the value of synchronous_commit that a new session has.
const selectDefault = `SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'`

// errNotDurable reports that commits through a pooler are not durable, so a crash could lose acknowledged links. setDurable
// cannot make these commits durable, because a pooler may run a transaction in another session, which lacks the setting.
var errNotDurable = errors.New("PostgreSQL behind a connection pooler has synchronous_commit=off or local, and could lose acknowledged links: " +
	"set it to on, for example with ALTER DATABASE ... SET synchronous_commit = on, and reconnect the pooler")

// connectionCheck checks or prepares a new connection. After an error, the connection is closed.
type connectionCheck func(context.Context, *pgx.Conn) error

func acceptConnection(context.Context, *pgx.Conn) error { return nil }

// mayBePooled reports whether a connection may lead to a pooler. A pooler may give a session to another program, together with
// the settings that this program made in the session. mayBePooled also returns true if the URL of the database sets
// default_query_exec_mode to another mode than cache_statement. With such a URL, poolers.adapt does not look for a pooler, so
// the program does not know whether there is one.
func mayBePooled(conn *pgx.Conn) bool {
	return conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// errSearchPath reports that a session behind a pooler may not have the search path of the database URL. With another
// search path, the program would not find its tables, and would create them again.
var errSearchPath = errors.New("the connection pooler may ignore the search_path of the URL: set this search path " +
	"with ALTER ROLE ... SET search_path or ALTER DATABASE ... SET search_path, remove it from the URL and reconnect the pooler")

// requireSearchPath returns errSearchPath if a pooler has ignored the parameter search_path. It also returns errSearchPath if the
// parameter options sets the search path, because a pooler may ignore some of the options.
func requireSearchPath(ctx context.Context, conn *pgx.Conn) error {
	if strings.Contains(conn.Config().RuntimeParams["options"], "search_path") {
		return errSearchPath
	}
	want, ok := conn.Config().RuntimeParams["search_path"]
	if !ok {
		return nil
	}
	var got string
	if err := conn.QueryRow(ctx, `SHOW search_path`).Scan(&got); err != nil {
		return err
	}
	if !slices.EqualFunc(schemas(got), schemas(want), strings.EqualFold) {
		return errSearchPath
	}
	return nil
}

// schemas returns the names in a search path, without spaces and quotes. A comparison of search paths must ignore both, because
// ALTER ROLE may store a search path with other spaces and quotes than its statement has.
func schemas(searchPath string) []string {
	names := strings.Split(searchPath, ",")
	for i, name := range names {
		names[i] = strings.Trim(strings.TrimSpace(name), `"`)
	}
	return names
}

// requireDurable makes the transactions of a connection durable. It returns errNotDurable if it cannot.
func requireDurable(ctx context.Context, conn *pgx.Conn) error {
	if mayBePooled(conn) {
		var value string
		if err := conn.QueryRow(ctx, selectDefault).Scan(&value); err != nil {
			return err
		}
		if value == "off" || value == "local" {
			return errNotDurable
		}
		return nil
	}
	_, err := conn.PgConn().Exec(ctx, setDurable).ReadAll()
	return err
}

// limitFirst limits the time of the first statements of a connection. pgxpool itself sets no limit: a connection attempt
// continues after the statement that needs the connection was canceled. If a network partition began during the first
// statements, the connection would occupy its place in the pool until the kernel ends the connection, about 15 minutes later.
func limitFirst(ctx context.Context, cfg *pgx.ConnConfig) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cfg.ConnectTimeout)
}

// beginConnections adds the check, the isolation level and the keepalives to the first statements of each new connection, and limits
// the time of these statements. If the connection may lead to a pooler, the isolation level and the keepalives are not set, and
// requireSearchPath runs instead. beginConnections sets the keepalives with a statement and not with connection parameters, because a
// pooler refuses parameters that it does not know. A pooler needs no keepalives of this program, because it has its own. If a server
// refuses the keepalives, the connection works without them.
func beginConnections(cfg *pgxpool.Config, check connectionCheck) {
	after := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := limitFirst(ctx, cfg.ConnConfig)
		defer cancel()
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		if err := check(ctx, conn); err != nil {
			return err
		}
		if mayBePooled(conn) {
			return requireSearchPath(ctx, conn)
		}
		if _, err := conn.PgConn().Exec(ctx, setIsolation).ReadAll(); err != nil {
			return err
		}
		_, err := conn.PgConn().Exec(ctx, setKeepalives).ReadAll()
		if conn.IsClosed() {
			return err
		}
		return nil
	}
}

// NewPool returns a pool of connections, which the caller closes. NewPool itself does not connect. It may be called concurrently.
// The commits of the connections are durable; see requireDurable.
func (c *Core) NewPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return c.newPool(ctx, cfg, requireDurable)
}

// newPool is like NewPool, but calls check for each new connection instead of requireDurable.
func (c *Core) newPool(ctx context.Context, cfg *pgxpool.Config, check connectionCheck) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // a role or a database may have another default
	c.poolers.adapt(cfg)
	beginConnections(cfg, check)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return pool, nil
}

// OpenPool is like NewPool, but the stop of the program closes the pool.
func (c *Core) OpenPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return c.openPool(ctx, cfg, requireDurable)
}

// OpenReplicaPool is like OpenPool, for a database to which the program does not write. So it accepts each value of
// synchronous_commit.
func (c *Core) OpenReplicaPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return c.openPool(ctx, cfg, acceptConnection)
}

func (c *Core) openPool(ctx context.Context, cfg *pgxpool.Config, check connectionCheck) (*pgxpool.Pool, error) {
	pool, err := c.newPool(ctx, cfg, check)
	if err != nil {
		return nil, err
	}
	c.life.OnStop("database", func(ctx context.Context) error {
		return program.WaitFor(ctx, func() error { pool.Close(); return nil })
	})
	return pool, nil
}

// renewConnections makes the ledger open new connections because the present connections may be
// broken. A connection in use is closed after its use.
func (c *Core) renewConnections() {
	if c.ledgerDB != nil {
		c.ledgerDB.Reset()
	}
}
