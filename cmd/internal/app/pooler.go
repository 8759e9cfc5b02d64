package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolers finds out which databases are behind a connection pooler such as PgBouncer. A pooler in transaction mode may run
// each transaction of a client on another connection to the server. A statement that the client prepared on one connection
// does not exist on another connection.
type poolers struct {
	mu    sync.Mutex
	known map[string]bool // whether there is a pooler, by the address of the database
}

// adapt changes cfg so that a connection that leads to a pooler prepares no statements. If the URL sets
// default_query_exec_mode to another mode than cache_statement, adapt changes nothing. Before the first connection to a
// database, p opens a separate connection to find out whether there is a pooler. Each new connection that would prepare
// statements is checked too, because a failover may put a pooler in front of the database. If the check finds a new pooler, the
// connection fails, and later connections prepare no statements.
func (p *poolers) adapt(cfg *pgxpool.Config) {
	if cfg.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return
	}
	cfg.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error {
		pooled, err := p.before(ctx, conn)
		if pooled {
			conn.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return err
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeExec {
			return nil
		}
		pooled, err := isPooled(ctx, conn)
		if err == nil && pooled {
			p.record(cfg.ConnConfig, true)
			err = errPooler
		}
		return err
	}
}

// errPooler reports a connection that would prepare statements although it leads to a pooler.
var errPooler = errors.New("the database is behind a connection pooler now")

// before runs before a connection is opened. It reports whether a pooler is in front of the database.
func (p *poolers) before(ctx context.Context, cfg *pgx.ConnConfig) (bool, error) {
	p.mu.Lock()
	pooled, known := p.known[address(cfg)]
	p.mu.Unlock()
	if known {
		return pooled, nil
	}
	pooled, err := leadsToPooler(ctx, cfg)
	if err == nil {
		p.record(cfg, pooled)
	}
	return pooled, err
}

// address returns the address of the database. If the URL names several hosts, it returns the address of the first
// host.
func address(cfg *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", cfg.Host, cfg.Port, cfg.Database)
}

// record stores in memory whether a pooler is in front of the database.
func (p *poolers) record(cfg *pgx.ConnConfig, pooled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[string]bool)
	}
	p.known[address(cfg)] = pooled
}

// leadsToPooler reports whether a new connection leads to a pooler.
func leadsToPooler(ctx context.Context, cfg *pgx.ConnConfig) (pooled bool, err error) {
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, err
	}
	ctx, cancel := limitFirst(ctx, cfg)
	defer cancel()
	pooled, err = isPooled(ctx, conn)
	return pooled, errors.Join(err, conn.Close(ctx))
}

// isPooled compares two process ids: the id that a new connection announces, and the id of the server process that
// answers a query. The two ids differ behind a pooler, because a pooler announces an id of its own.
func isPooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&pid)
	return pid != conn.PgConn().PID(), err
}
