package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolers finds out which databases are behind a connection pooler such as PgBouncer. A pooler in transaction mode gives each
// transaction of a client another connection to the server, so a statement that the client prepared does not exist there.
type poolers struct {
	mu    sync.Mutex
	known map[string]bool // whether there is a pooler, by the address of the database
}

// adapt makes the connections of cfg prepare no statements if they lead to a pooler. A URL that contains
// default_query_exec_mode decides for itself. The first connection to a database takes one more connection, which finds
// out.
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
}

// before reports whether a pooler is before the database.
func (p *poolers) before(ctx context.Context, cfg *pgx.ConnConfig) (bool, error) {
	address := fmt.Sprintf("%s:%d/%s", cfg.Host, cfg.Port, cfg.Database)
	p.mu.Lock()
	pooled, known := p.known[address]
	p.mu.Unlock()
	if known {
		return pooled, nil
	}
	pooled, err := isPooled(ctx, cfg)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[string]bool)
	}
	p.known[address] = pooled
	return pooled, nil
}

// isPooled compares the process id that a new connection announces with the one of the server process that answers. A pooler
// announces its own.
func isPooled(ctx context.Context, cfg *pgx.ConnConfig) (pooled bool, err error) {
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, err
	}
	var pid uint32
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	return pid != conn.PgConn().PID(), errors.Join(err, conn.Close(ctx))
}
