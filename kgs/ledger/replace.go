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
// In the same transaction, Replace calls links, which must mark the links with keys of the old ledger.
// Their numbers are not numbers of the new ledger.
//
// The new ledger has another name, so it uses other keys in Redis. The pool of the old ledger stays in
// Redis until an operator deletes it.
//
// Replace fails with ErrInUse if a holder sends heartbeats. It waits for two heartbeats if there is any
// holder. After a crash, the ledger is either complete or deleted.
func (l *Ledger) Replace(ctx context.Context, links func(context.Context, *sql.Tx) error) error {
	unused, err := l.CheckUnused(ctx)
	if err == nil {
		err = l.replace(ctx, unused, links)
	}
	if err != nil {
		return fmt.Errorf("ledger: replace: %w", err)
	}
	return nil
}

func (l *Ledger) replace(ctx context.Context, unused Unused, links func(context.Context, *sql.Tx) error) error {
	tx, err := l.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	if err := unused.Lock(ctx, tx); err != nil {
		return err
	}
	if err := links(ctx, tx); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM kgs_ranges`, `DELETE FROM kgs_leases`, `DELETE FROM kgs_epochs`, `DELETE FROM kgs_holders`,
		`UPDATE kgs_spaces SET next = 0`, `DELETE FROM kgs_ledger`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Unused is the result of [Ledger.CheckUnused]: no holder sent a heartbeat.
type Unused struct {
	lock  string // locks the row of the ledger
	beats map[string]int64
}

// CheckUnused returns ErrInUse if a holder sends heartbeats. If there is any holder, CheckUnused waits
// for the time of two heartbeats.
func (l *Ledger) CheckUnused(ctx context.Context) (Unused, error) {
	before, err := l.beats(ctx)
	if err != nil || len(before) == 0 {
		return Unused{lock: l.dialect.lock}, err
	}
	wait := time.NewTimer(2 * HeartbeatInterval)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return Unused{}, ctx.Err()
	}
	after, err := l.beats(ctx)
	if err != nil {
		return Unused{}, err
	}
	return Unused{l.dialect.lock, before}, compare(before, after)
}

// Lock locks the ledger until the end of tx, which must be a transaction in the database of the ledger.
// On SQLite, the locking connection must have begun tx. Until then no holder can send a heartbeat. Lock
// returns ErrInUse if a holder has sent a heartbeat since CheckUnused.
func (u Unused) Lock(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, u.lock); err != nil {
		return err
	}
	beats, err := heartbeatsIn(ctx, tx)
	if err != nil {
		return err
	}
	return compare(u.beats, beats)
}

// compare returns ErrInUse if a holder sent a heartbeat between before and after.
func compare(before, after map[string]int64) error {
	for holder, beat := range after {
		if seen, ok := before[holder]; !ok || seen != beat {
			return fmt.Errorf("%w: holder %s", ErrInUse, holder)
		}
	}
	return nil
}

// beats returns the heartbeat of each holder.
func (l *Ledger) beats(ctx context.Context) (beats map[string]int64, err error) {
	err = l.view(ctx, "heartbeats", func(tx *sql.Tx) error {
		beats, err = heartbeatsIn(ctx, tx)
		return err
	})
	return beats, err
}

func heartbeatsIn(ctx context.Context, tx *sql.Tx) (map[string]int64, error) {
	all, err := collect(ctx, tx, scanHeartbeat, `SELECT holder, beat FROM kgs_holders`)
	beats := make(map[string]int64, len(all))
	for _, h := range all {
		beats[h.holder] = h.count
	}
	return beats, err
}
