package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/kgs/codespace"
)

// tx is one transaction of a change of the ledger. It holds the lock of the ledger's row.
type tx struct {
	*sql.Tx
	dialect     *dialect
	list        int   // the list that the change concerns
	epoch       int64 // epoch of new ranges: the same as latest until selectList, and then the epoch of the selected list
	latest      int64 // the highest epoch of all lists
	last        int64 // last range id that was assigned
	highWater   *highWater
	everyLength bool                // whether a skip-ahead also skips numbers of lengths that have no known reservation
	random      func(n int64) int64 // returns a number from 0 to n-1
	rolledBack  int64               // numbers that skip-aheads of this change have abandoned as ReasonRollback
}

func (t *tx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.ExecContext(ctx, query, args...)
	return err
}

// nextID assigns an id.
func (t *tx) nextID() int64 {
	t.last++
	return t.last
}

// insert adds a row for numbers under a new id.
func (t *tx) insert(ctx context.Context, numbers codespace.Range, state State, holder, reason string) (Reservation, error) {
	r := Reservation{Range: numbers, ID: t.nextID(), Epoch: t.epoch}
	return r, t.exec(ctx,
		`INSERT INTO kgs_ranges (id, length, lo, hi, state, holder, reason, epoch) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		r.ID, r.Length, r.Lo, r.Hi, string(state), holder, reason, r.Epoch)
}

// update runs f in one transaction and commits the transaction if f succeeds.
func (l *Ledger) update(ctx context.Context, op string, f func(context.Context, *tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	if err := l.updateTx(ctx, f); err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	return nil
}

func (l *Ledger) updateTx(ctx context.Context, f func(context.Context, *tx) error) error {
	// With this isolation level, the statements after the wait for the lock find what other processes committed during
	// the wait. The default level of the database may be another level. SQLite ignores this option.
	sqlTx, err := l.write.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = sqlTx.Rollback() }() // has no effect after a commit
	if l.dialect.begin != "" {
		if _, err := sqlTx.ExecContext(ctx, l.dialect.begin); err != nil {
			return err
		}
	}
	locked, err := l.dialect.lockRow(ctx, sqlTx)
	if errors.Is(err, sql.ErrNoRows) {
		if l.Name() != "" {
			return ErrReplaced
		}
		return ErrNotInitialized
	}
	if err != nil {
		return err
	}
	if err := l.recognizeName(locked.name); err != nil {
		return err
	}
	t := &tx{
		Tx: sqlTx, dialect: &l.dialect, highWater: &l.highWater, random: l.random,
		epoch: locked.epoch, latest: locked.epoch, last: locked.last,
	}
	last := t.last
	if err := t.detectRollback(ctx, locked.history, locked.present); err != nil {
		return err
	}
	if err := f(ctx, t); err != nil {
		return err
	}
	if t.last != last {
		if err := t.exec(ctx, `UPDATE kgs_ledger SET last_range = $1 WHERE id = 1`, t.last); err != nil {
			return err
		}
	}
	if err := sqlTx.Commit(); err != nil {
		return err
	}
	l.highWater.raise(HighWaterMark{ID: t.last})
	l.keepWitness(ctx, t.last, t.last != last)
	if t.rolledBack > 0 && l.onSkipAhead != nil {
		l.onSkipAhead(t.rolledBack)
	}
	return nil
}

// updateTimeout limits the duration of one transaction of a change, including the wait for the lock.
const updateTimeout = 10 * time.Second

// view runs f in a read-only transaction that reads one consistent state.
func (l *Ledger) view(ctx context.Context, op string, f func(*sql.Tx) error) error {
	tx, err := l.read.BeginTx(ctx, &l.dialect.snapshot)
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	defer func() { _ = tx.Rollback() }() // a read-only transaction needs no commit
	if err := f(tx); err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	return nil
}

// collect returns all rows of a query.
func collect[T any](ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports any error
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
