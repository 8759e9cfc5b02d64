package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/kgs"
)

// ErrLeased means that clients have leased keys of the ledger. A new ledger could lease the same keys again.
var ErrLeased = errors.New("clients have leased keys of this ledger, and a new ledger may lease the same keys again")

// ErrInUse means that a process uses the ledger.
var ErrInUse = errors.New("a server or worker is running: stop all programs that use the database")

// Replace replaces the ledger with a new ledger that has the permutation of cfg. The caller must call Open next.
// Replace is needed if the secret was lost. A code of the new ledger may be the code of an existing link. The primary
// key of the links rejects such a code, and the creation tries again with another key.
//
// A rollback of the database may have removed a ledger that had the same permutation and issued numbers. Therefore the
// new ledger skips ahead at its first change in these cases:
//
//   - the history name of the database (see detectRollback) has changed since the last change of the old ledger;
//   - Restored was called after the last change of the old ledger.
//
// Replace calls updateLinks in the transaction that replaces the ledger. updateLinks must change the recorded
// source of each link that has a key of the old ledger. Otherwise the audit would count this key as a key of the new
// ledger, which has not issued it.
//
// The new ledger has another name, so it uses other keys in Redis. The pool of the old ledger stays in
// Redis until an operator deletes it.
//
// Replace fails with ErrInUse if a holder sends heartbeats, as CheckUnused documents. If forgetLeases is false, Replace
// fails with ErrLeased if clients have leased keys. After a crash, the database has either the old ledger or the new
// one.
func (l *Ledger) Replace(ctx context.Context, cfg Config, forgetLeases bool, updateLinks func(context.Context, *sql.Tx) error) error {
	unused, err := l.CheckUnused(ctx)
	if err == nil {
		err = l.replace(ctx, cfg, unused, forgetLeases, updateLinks)
	}
	if err != nil {
		return fmt.Errorf("ledger: replace: %w", err)
	}
	l.highWater.forget() // the high-water mark contains numbers of the old ledger
	l.name.Store("")
	if l.witness != nil {
		l.witness.use("") // the file stays, because an operator may restore the old database
	}
	return nil
}

func (l *Ledger) replace(
	ctx context.Context, cfg Config, unused Unused, forgetLeases bool, updateLinks func(context.Context, *sql.Tx) error,
) error {
	space, made, err := cfg.space()
	if err != nil {
		return err
	}
	tx, err := l.write.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // as in updateTx
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	if err := unused.Lock(ctx, tx); err != nil {
		return err
	}
	old, err := l.dialect.lockRow(ctx, tx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := l.recognizeName(old.name); err != nil {
		return err
	}
	if !forgetLeases {
		if err := checkLeases(ctx, tx); err != nil {
			return err
		}
	}
	if err := updateLinks(ctx, tx); err != nil {
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
	history := old.present
	if old.history != "" && old.history != old.present {
		history = restored
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO kgs_ledger (id, secret, fingerprint, history) VALUES (1, $1, $2, $3)`,
		made, space.Fingerprint(), history)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// checkLeases returns ErrLeased if the ledger records a lease, or numbers that were abandoned because a client had them.
func checkLeases(ctx context.Context, tx *sql.Tx) error {
	var leased bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM kgs_leases)
		OR EXISTS (SELECT 1 FROM kgs_ranges WHERE lease <> 0 OR reason = $1)`, kgs.ReasonClient).Scan(&leased)
	if err == nil && leased {
		err = ErrLeased
	}
	return err
}

// Unused is what [Ledger.CheckUnused] returns if no holder sent a heartbeat.
type Unused struct {
	lock  string           // SQL statement that locks the row of the ledger
	beats map[string]int64 // number of heartbeats by holder
}

// CheckUnused returns ErrInUse if a holder sends heartbeats. If the ledger has a holder, CheckUnused waits half a
// minute for a heartbeat. After this time, Sweep would declare the holder dead. CheckUnused returns earlier if a
// holder sends a heartbeat.
func (l *Ledger) CheckUnused(ctx context.Context) (Unused, error) {
	beats, err := quiet(ctx, l.beats)
	return Unused{l.dialect.lock, beats}, err
}

// quiet waits for deadAfter times HeartbeatInterval. If a holder registers or sends a heartbeat in this time, quiet
// returns ErrInUse. Otherwise it returns the number of heartbeats of each holder. If there is no holder at the start,
// quiet returns at once.
func quiet(ctx context.Context, read func(context.Context) (map[string]int64, error)) (map[string]int64, error) {
	before, err := read(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	tick := time.NewTicker(HeartbeatInterval)
	defer tick.Stop()
	for range deadAfter {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		after, err := read(ctx)
		if err == nil {
			err = compare(before, after)
		}
		if err != nil {
			return nil, err
		}
	}
	return before, nil
}

// Lock locks the ledger until the end of tx, which must be a transaction in the database of the ledger.
// On SQLite, tx must be a transaction of the connection for writing, which locks the file. While the ledger is
// locked, no holder can send a heartbeat. Lock returns ErrInUse if a holder has sent a heartbeat since
// CheckUnused.
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

// compare returns ErrInUse if a holder in the map after has no entry in the map before, or has another number of
// heartbeats there.
func compare(before, after map[string]int64) error {
	for holder, beat := range after {
		if seen, ok := before[holder]; !ok || seen != beat {
			return fmt.Errorf("%w: holder %s", ErrInUse, holder)
		}
	}
	return nil
}

// beats returns the number of heartbeats of each holder.
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
