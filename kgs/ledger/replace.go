package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrInUse means that a process uses the ledger.
var ErrInUse = errors.New("a server or worker is running: stop all programs that use the database")

// Replace deletes the ledger, so that the next Open creates a ledger with another permutation. It is
// for a secret that was lost. Codes of the new ledger may be codes of existing links. The primary key
// of the links rejects these, and creations try again.
//
// The new ledger has another name, so it uses other keys in Redis. The pool of the old ledger stays in
// Redis until an operator deletes it.
//
// Replace fails with ErrInUse if a holder sends heartbeats. It waits for two heartbeats if there is any
// holder. After a crash, the ledger is either complete or deleted.
func (l *Ledger) Replace(ctx context.Context) error {
	if err := l.CheckUnused(ctx); err != nil {
		return err
	}
	tx, err := l.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("ledger: replace: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	for _, statement := range []string{
		`DELETE FROM kgs_ranges`, `DELETE FROM kgs_leases`, `DELETE FROM kgs_epochs`, `DELETE FROM kgs_holders`,
		`UPDATE kgs_spaces SET next = 0`, `DELETE FROM kgs_ledger`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("ledger: replace: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("ledger: replace: %w", err)
	}
	return nil
}

// CheckUnused returns ErrInUse if a holder sends heartbeats. If there is any holder, CheckUnused waits
// for the time of two heartbeats.
func (l *Ledger) CheckUnused(ctx context.Context) error {
	before, err := l.beats(ctx)
	if err != nil || len(before) == 0 {
		return err
	}
	wait := time.NewTimer(2 * HeartbeatInterval)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := l.beats(ctx)
	if err != nil {
		return err
	}
	for holder, beat := range after {
		if seen, ok := before[holder]; !ok || seen != beat {
			return fmt.Errorf("%w: holder %s", ErrInUse, holder)
		}
	}
	return nil
}

// beats returns the heartbeat of each holder.
func (l *Ledger) beats(ctx context.Context) (map[string]int64, error) {
	beats := make(map[string]int64)
	err := l.view(ctx, "heartbeats", func(tx *sql.Tx) error {
		_, err := collect(ctx, tx, func(rows *sql.Rows) (holder string, err error) {
			var beat int64
			err = rows.Scan(&holder, &beat)
			beats[holder] = beat
			return holder, err
		}, `SELECT holder, beat FROM kgs_holders`)
		return err
	})
	return beats, err
}
