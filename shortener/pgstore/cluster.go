package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"keypool/shortener"
)

// NewClustered returns a store for a node of a Citus cluster, and is otherwise like New. This store sends BEGIN before each
// pipeline of inserts, because Citus treats each statement outside of a transaction block as a transaction.
func NewClustered(pool *pgxpool.Pool, order shortener.Order) *Store {
	s := New(pool, order)
	s.clustered = true
	return s
}

// maxEach is the maximum number of links for which an Insert on a node of a Citus cluster sends one statement for each
// link. For more links, the Insert sends statements with arrays. Citus plans a statement with arrays again at each
// execution, which takes about 0.5 ms of processor time. Citus keeps the plan of a statement that inserts a single row,
// so such a statement takes only about 0.1 ms.
const maxEach = 3

// insertEach is like insertAll, but sends one statement for each link. The links must not have details.
//
// The check of the order is the last statement. The command `shortener reindex` locks the tables of links before it
// changes the order, and the statements that insert links wait for this lock. A check before these statements could
// read the earlier order.
func (s *Store) insertEach(ctx context.Context, conn *pgxpool.Conn, tables []*columns) error {
	var batch pgx.Batch
	for _, c := range tables {
		c.queueEach(&batch)
	}
	batch.Queue(requireOrder, s.fingerprint)
	err := s.send(ctx, conn, &batch)
	if reply := (*pgconn.PgError)(nil); errors.As(err, &reply) && reply.Code == stateDivisionByZero {
		return fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrOtherOrder)
	}
	return err
}

// Warm prepares n connections of the pool for inserts, and opens them if necessary. For this purpose, it executes an INSERT of
// zero links on each connection, at the same time. It fails if the server does not accept links.
func (s *Store) Warm(ctx context.Context, n int) error {
	none := newColumns(nil)
	none.ranks, none.order = []int64{}, s.fingerprint
	var inserts errgroup.Group
	for range n {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return errors.Join(err, inserts.Wait())
		}
		defer conn.Release() //nolint:gocritic // deferInLoop: each of the few inserts has its own connection
		inserts.Go(func() error {
			var batch pgx.Batch
			none.queue(&batch, "")
			return s.send(ctx, conn, &batch)
		})
	}
	return inserts.Wait()
}

// Answered reports whether err shows that the server is able to execute statements. The parameter err is the error of a
// method, or nil. For these errors of the server, Answered returns false:
//
//   - errors of class 57, because the server is stopping or cancelled the statement;
//   - errors of class 08, because the server cannot reach another server that it needs;
//   - errors with another severity than ERROR, because they end the connection.
func Answered(err error) bool {
	var reply *pgconn.PgError
	if errors.As(err, &reply) && len(reply.Code) == 5 {
		class := reply.Code[:2]
		return reply.SeverityUnlocalized == "ERROR" && class != classIntervention && class != classConnection
	}
	return err == nil || isNotFound(err) || errors.Is(err, shortener.ErrOtherOrder) || errors.Is(err, shortener.ErrChanged) ||
		errors.Is(err, shortener.ErrDetails) || errors.Is(err, errRowVanished)
}

// IsDeadlock reports whether the server rolled a transaction back to end a deadlock.
func IsDeadlock(err error) bool {
	var reply *pgconn.PgError
	return errors.As(err, &reply) && reply.Code == stateDeadlock
}
