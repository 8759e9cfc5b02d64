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
	probeTimeout  = 4 * time.Second
	maxSilence    = 8 * time.Second
)

// errNoAnswer reports that the database accepts connections but does not answer.
var errNoAnswer = fmt.Errorf("the database did not answer for %v", maxSilence)

// WhileAnswering calls the function do and returns its error. If PostgreSQL stops answering, WhileAnswering ends the
// context of do, at most 14 s later. A statement that reads many rows has no time limit, so do itself cannot
// distinguish a slow statement from a database that hangs.
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
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errNoAnswer) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// probe connects to the database again and again. It returns errNoAnswer if the database has not answered for maxSilence, or
// nil when ctx ends. probe does not use the connection pool of c, because all connections of the pool may be busy.
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
		if answers(ctx, cfg) {
			answered = time.Now()
		} else if time.Since(answered) >= maxSilence {
			return errNoAnswer
		}
	}
}

// answers reports whether the database answers a new connection in time. An error counts as an answer, unless it is a
// timeout.
func answers(ctx context.Context, cfg *pgx.ConnConfig) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		err = conn.Close(ctx)
	}
	return err == nil || ctx.Err() == nil && !pgconn.Timeout(err)
}
