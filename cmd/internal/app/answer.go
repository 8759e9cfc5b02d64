package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	probeInterval = 2 * time.Second
	probeTimeout  = 8 * time.Second
	maxSilence    = 8 * time.Second
)

// errNoAnswer reports that the database did not complete any connection in time.
var errNoAnswer = fmt.Errorf("the database did not answer for %v", maxSilence)

// errNoWorkerAnswer reports that the coordinator of a Citus cluster answers, but one of its workers does not.
var errNoWorkerAnswer = fmt.Errorf("a worker of the Citus cluster did not answer for %v", maxSilence)

// WhileAnswering calls the function do and returns its error. If PostgreSQL stops answering, WhileAnswering ends the
// context of do, at most maxSilence + probeInterval + probeTimeout = 18 s later. A statement that reads many rows has no
// time limit. Therefore the function do cannot distinguish a slow statement from a database that hangs.
func (c *Core) WhileAnswering(ctx context.Context, do func(context.Context) error) error {
	if c.Database.Postgres == nil {
		return do(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(probe(ctx, c.Database.LedgerPool().ConnConfig))
	}()
	err := do(ctx)
	cancel(nil)
	<-ended
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errNoAnswer) || errors.Is(cause, errNoWorkerAnswer)) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// probe calls [checkAnswer] every probeInterval. It returns the error of checkAnswer if the database has not answered for
// maxSilence, or nil when ctx ends. probe does not use the connection pool of the ledger, because all connections of the
// pool may be busy.
func probe(ctx context.Context, cfg *pgx.ConnConfig) error {
	ticks := time.NewTicker(probeInterval)
	defer ticks.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		err := checkAnswer(ctx, cfg)
		if err == nil {
			answered = time.Now()
		} else if time.Since(answered) >= maxSilence {
			return err
		}
	}
}

// checkAnswer opens a connection to the database. If the database is on the coordinator of a Citus cluster, the
// coordinator also connects to each worker. If the database does not accept the connection within probeTimeout and the
// time limits of cfg, checkAnswer returns errNoAnswer. If a worker does not answer within probeTimeout, checkAnswer
// returns errNoWorkerAnswer. After any other error, checkAnswer returns nil, because such an error counts as an answer.
func checkAnswer(ctx context.Context, cfg *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	timedOut := func(err error) bool { return err != nil && (ctx.Err() != nil || pgconn.Timeout(err)) }
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // without prepared statements, which a connection pooler may not support
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if timedOut(err) {
		return errNoAnswer
	}
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close(ctx) }() // the answer is known, so an error does not matter
	if timedOut(askWorkers(ctx, conn)) {
		return errNoWorkerAnswer
	}
	return nil
}

// askWorkers lets the coordinator of a Citus cluster execute a statement on each worker. It does nothing if the database has no Citus.
func askWorkers(ctx context.Context, conn *pgx.Conn) error {
	var citus bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('pg_catalog.pg_dist_node') IS NOT NULL`).Scan(&citus); err != nil || !citus {
		return err
	}
	_, err := conn.Exec(ctx, `SELECT run_command_on_workers('SELECT 1')`)
	return err
}
