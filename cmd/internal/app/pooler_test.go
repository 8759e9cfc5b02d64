package app

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/internal/testenv"
)

// A database that was reached directly is behind a pooler after a failover.
func TestNewConnectionDetectsPoolerAfterFailover(t *testing.T) {
	t.Parallel()
	postgres := testenv.StartPostgres(t)
	direct, err := pgxpool.ParseConfig(postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	pooled, err := pgx.ParseConfig(testenv.StartPgBouncer(t, postgres).URL)
	if err != nil {
		t.Fatal(err)
	}
	var p poolers
	p.adapt(direct)
	known, failover := direct.BeforeConnect, false
	direct.BeforeConnect = func(ctx context.Context, cfg *pgx.ConnConfig) error {
		err := known(ctx, cfg)
		if failover {
			cfg.Host, cfg.Port = pooled.Host, pooled.Port
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	mode := func() (pgx.QueryExecMode, error) {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			return 0, err
		}
		defer conn.Release()
		return conn.Conn().Config().DefaultQueryExecMode, nil
	}
	if got, err := mode(); err != nil || got != pgx.QueryExecModeCacheStatement {
		t.Fatalf("before the failover: %v, %v", got, err)
	}
	failover = true
	pool.Reset()
	if _, err := mode(); !errors.Is(err, errPooler) {
		t.Errorf("the first connection after the failover: %v, want errPooler", err)
	}
	if got, err := mode(); err != nil || got != pgx.QueryExecModeExec {
		t.Errorf("the second connection after the failover: %v, %v, want no prepared statements", got, err)
	}
}
