package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener"
)

// InsertWith is like Insert, but executes one more statement in the same transaction. After the inserts and before the
// commit, it calls the parameter more and passes the outcomes of the links. This call returns the additional statement,
// or "" for none. If the call or the statement fails, InsertWith writes nothing. The links must not have idempotency
// keys.
func (s *Store) InsertWith(
	ctx context.Context, links []shortener.Link, more func([]shortener.Outcome) (statement string, argument any, err error),
) ([]shortener.Outcome, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	defer conn.Release()
	return s.transact(ctx, conn, func(tx pgx.Tx) ([]shortener.Outcome, error) {
		inserted, err := s.insertNew(ctx, tx, links)
		if err != nil {
			return nil, err
		}
		outcomes, err := s.outcomes(ctx, tx, links, inserted)
		if err != nil {
			return nil, err
		}
		statement, argument, err := more(outcomes)
		if err == nil && statement != "" {
			_, err = tx.Exec(ctx, statement, argument)
		}
		return outcomes, err
	})
}

// transact calls the function insert in a transaction and commits the transaction.
func (s *Store) transact(ctx context.Context, conn *pgxpool.Conn, insert func(pgx.Tx) ([]shortener.Outcome, error)) ([]shortener.Outcome, error) {
	// The isolation level allows concurrent inserts of the same keys, even if the database has another default.
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("begin to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	outcomes, err := insert(tx)
	if err != nil {
		_ = tx.Rollback(ctx) // if it fails, the connection is closed, and the server rolls back
		return nil, s.notCommitted(err)
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, s.insertFailed(err)
	}
	return outcomes, nil
}

// notCommitted returns the error of a transaction that failed with err before its commit. The result always wraps
// [shortener.ErrNotWritten]. It also wraps [shortener.ErrKeyBusy] if a lock was not available.
func (s *Store) notCommitted(err error) error {
	var reply *pgconn.PgError
	if errors.As(err, &reply) && reply.Code == stateLockNotAvailable {
		err = fmt.Errorf("%w: %w", shortener.ErrKeyBusy, err)
	}
	if err = s.insertFailed(err); !errors.Is(err, shortener.ErrNotWritten) {
		err = fmt.Errorf("%w: %w", shortener.ErrNotWritten, err)
	}
	return err
}
