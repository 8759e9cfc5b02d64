package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener"
)

// InsertWith is like Insert, but executes one more statement in the same transaction. After the inserts and before the
// commit, it calls statementFor with the outcomes of the links. This call returns the additional statement and its
// argument, or "" for no statement. If the call or the statement fails, InsertWith writes nothing. The links must not
// have idempotency keys.
func (s *Store) InsertWith(
	ctx context.Context, links []shortener.Link, statementFor func([]shortener.Outcome) (statement string, argument any, err error),
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
		outcomes, err := s.outcomes(ctx, tx, links, inserted, nil)
		if err != nil {
			return nil, err
		}
		statement, argument, err := statementFor(outcomes)
		if err == nil && statement != "" {
			_, err = tx.Exec(ctx, statement, argument)
		}
		return outcomes, err
	})
}

// begin begins a transaction. Its isolation level is READ COMMITTED, whatever the default of the database is. At a
// higher level, one of two concurrent inserts of the same code or idempotency key would fail. If the process is
// suspended or loses its connection during the transaction, the server ends the transaction after three seconds.
// Without this limit, the inserts of other processes would wait for the codes and the idempotency keys of the
// transaction. If the process is not suspended, an Insert of the group commit does not reach the limit, because the
// Insert ends after two seconds.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '3s'`

// transact calls the function insert in a transaction and commits the transaction.
func (s *Store) transact(ctx context.Context, conn *pgxpool.Conn, insert func(pgx.Tx) ([]shortener.Outcome, error)) ([]shortener.Outcome, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
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
// [shortener.ErrNotWritten].
func (s *Store) notCommitted(err error) error {
	if err = s.insertFailed(err); !errors.Is(err, shortener.ErrNotWritten) {
		err = fmt.Errorf("%w: %w", shortener.ErrNotWritten, err)
	}
	return err
}
