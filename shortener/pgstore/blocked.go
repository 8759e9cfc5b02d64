package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"keypool/shortener"
)

// These statements set the time for which the following statements of a transaction wait for another transaction. Unlike SET
// LOCAL, set_config causes no warning in a pipeline that begins without BEGIN. The column name lock_timeout
// identifies these statements in the view pg_stat_statements, which does not show constants.
const (
	// lockTimeout limits the wait of an Insert for other transactions with the same codes or the same idempotency
	// keys. After this time, the Insert inserts the other links. The limit is shorter than the time for which a creation
	// waits for its commit, so the creations of the other links are still waiting.
	lockTimeout = `SELECT set_config('lock_timeout', '300ms', true) AS lock_timeout`
	// shortTimeout is the limit after a statement has failed because of lockTimeout. The Insert then inserts idempotency
	// keys one by one, and links in smaller groups.
	shortTimeout = `SELECT set_config('lock_timeout', '1ms', true) AS lock_timeout`
	// noTimeout removes the limit. An Insert without idempotency keys may reach lockTimeout while it waits for the lock of a
	// table, or for another lock that does not belong to a code. Then the Insert tries again with noTimeout. Such a lock
	// concerns all links, so only the context limits the wait.
	noTimeout = `SELECT set_config('lock_timeout', '0', true) AS lock_timeout`
	// defaultTimeout ends the limit for the following statements.
	defaultTimeout = `SET LOCAL lock_timeout TO DEFAULT`
)

// maxBusy is the number of busy codes after which insertParts does not divide the links any more. Many codes are busy if an
// Insert loses its connection, and the caller repeats the Insert while PostgreSQL still executes the first one.
const maxBusy = 8

// insertUnblocked inserts links in a transaction and returns their outcomes. If another transaction has inserted the code of
// a link and does not end within the timeout, the outcome of the link is CodeBusy. The other transaction may be the
// transaction of a suspended process.
func (s *Store) insertUnblocked(ctx context.Context, tx pgx.Tx, links []shortener.Link, timeout string) ([]shortener.Outcome, error) {
	busy := make(map[string]bool)
	inserted, err := s.insertParts(ctx, tx, links, timeout, busy)
	if err != nil {
		return nil, err
	}
	return s.outcomes(ctx, tx, links, inserted, busy)
}

// insertParts inserts links and returns the codes of the new rows. If another transaction holds a code, the error does not
// name the code. So insertParts divides the links into halves until the link with this code is alone, and adds the code to
// busy. If busy already has maxBusy codes, insertParts divides no more, and adds all codes of links to busy.
func (s *Store) insertParts(ctx context.Context, tx pgx.Tx, links []shortener.Link, timeout string, busy map[string]bool) (inserted []string, err error) {
	if len(busy) > 0 { // two links may have the same code, which may be busy already
		links = slices.DeleteFunc(slices.Clone(links), func(l shortener.Link) bool { return busy[l.Code] })
	}
	inserted, err = s.insertPart(ctx, tx, links, timeout)
	if isLockTimeout(err) && !isCodeLocked(err) { // the server waited for another lock, such as the lock of a table
		inserted, err = s.insertPart(ctx, tx, links, lockTimeout)
	}
	if !isCodeLocked(err) {
		return inserted, err
	}
	if len(links) == 1 || len(busy) >= maxBusy {
		for i := range links {
			busy[links[i].Code] = true
		}
		return nil, nil
	}
	half := len(links) / 2
	inserted, err = s.insertParts(ctx, tx, links[:half], shortTimeout, busy)
	if err != nil {
		return nil, err
	}
	rest, err := s.insertParts(ctx, tx, links[half:], shortTimeout, busy)
	return append(inserted, rest...), err
}

// insertPart inserts links and returns the codes of the new rows. If isLockTimeout is true for the error, insertPart has
// inserted no link, and the transaction can continue. The timeout does not apply to later statements.
func (s *Store) insertPart(ctx context.Context, tx pgx.Tx, links []shortener.Link, timeout string) (inserted []string, err error) {
	inserted, err = s.insertNew(ctx, tx, links, `SAVEPOINT links`, timeout)
	if isLockTimeout(err) {
		if _, failed := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT links`); failed != nil {
			return nil, failed
		}
	}
	return inserted, err
}
