package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"keypool/shortener"
)

// errReadOnly reports that the server accepts no writes because it is a standby or a demoted
// primary.
var errReadOnly = errors.New("the database is read-only")

// SQLSTATE codes and classes, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	stateReadOnly          = "25006"
	stateDiskFull          = "53100"
	stateCompletionUnknown = "40003"
	stateUniqueViolation   = "23505"
	stateLockNotAvailable  = "55P03"
	stateInternal          = "XX000"
	stateDivisionByZero    = "22012"
	stateDeadlock          = "40P01"

	classConnection   = "08"
	classData         = "22"
	classConstraint   = "23"
	classLimit        = "54"
	classIntervention = "57"
)

// insertFailed returns the error of an Insert whose INSERT or COMMIT failed with err. If the result wraps
// [shortener.ErrNotWritten], the server has rolled the transaction back. Otherwise the outcome is unknown. In these cases,
// the commit may have happened:
//
//   - the connection was lost;
//   - the server is stopping or cancelled the statement (class 57, or the severity FATAL);
//   - the connection of the server to another server failed (class 08);
//   - the server does not know the outcome (40003).
func (s *Store) insertFailed(err error) error {
	s.resetIfReadOnly(err)
	var reply *pgconn.PgError
	if !errors.As(err, &reply) || reply.SeverityUnlocalized != "ERROR" || len(reply.Code) != 5 {
		return fmt.Errorf("insert links: %w", err)
	}
	switch class := reply.Code[:2]; {
	case class == classIntervention || class == classConnection || reply.Code == stateCompletionUnknown:
		return fmt.Errorf("insert links: %w", err)
	case class == classData || class == classConstraint || class == classLimit:
		err = fmt.Errorf("%w: %w", shortener.ErrRefused, err)
	case reply.Code == stateDiskFull:
		err = fmt.Errorf("%w: %w", shortener.ErrStoreFull, err)
	}
	return fmt.Errorf("insert links: %w: %w", shortener.ErrNotWritten, err)
}

// resetIfReadOnly closes the connections of the pool if err shows that a connection leads to a
// demoted primary. The driver would keep these connections, because it applies target_session_attrs
// only when it connects.
func (s *Store) resetIfReadOnly(err error) {
	var reply *pgconn.PgError
	if errors.As(err, &reply) && reply.Code == stateReadOnly {
		s.pool.Reset()
	}
}

// isConflict reports whether err means that a row with the same primary key exists.
func isConflict(err error) bool {
	var reply *pgconn.PgError
	return errors.As(err, &reply) && reply.Code == stateUniqueViolation
}

// isInternal reports whether err has the general SQLSTATE for internal errors. A node of a Citus
// cluster reports a conflict on another node with this SQLSTATE.
func isInternal(err error) bool {
	var reply *pgconn.PgError
	return errors.As(err, &reply) && reply.Code == stateInternal
}

// isCodeLocked reports whether err means that an INSERT waited too long for another transaction that inserted the same
// primary key. An error from the wait for the lock of a table has the same SQLSTATE, but no context (PgError.Where).
func isCodeLocked(err error) bool {
	var reply *pgconn.PgError
	return errors.As(err, &reply) && reply.Code == stateLockNotAvailable && reply.Where != ""
}

// isLockTimeout reports whether err means that a statement waited too long for another transaction.
func isLockTimeout(err error) bool {
	var reply *pgconn.PgError
	return errors.As(err, &reply) && reply.Code == stateLockNotAvailable
}
