package reorder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"keypool/shortener"
)

// Begin changes the order on record to the order with this fingerprint, and moves the links with ranks from
// ranked_links to links_earlier. Then the caller must call [Database.Move], and no program may use the
// links until Move has moved all of them. Begin needs as much free disk space as the links occupy. It runs
// in one transaction, and first calls lock in this transaction. The function lock must fail if a program
// uses the links, and must keep programs from starting. After a crash, either Begin has had no effect, or
// the caller can continue with Move. If the database already has the order, Begin does nothing. In PostgreSQL,
// Begin fails if it waits for the lock of a table of links for longer than five seconds.
func (d Database) Begin(ctx context.Context, fingerprint string, lock func(context.Context, *sql.Tx) error) error {
	recorded, err := d.Recorded(ctx)
	if err != nil && !errors.Is(err, ErrUnrecorded) || recorded == fingerprint {
		return err
	}
	if err := d.begin(ctx, fingerprint, lock); err != nil {
		return fmt.Errorf("change the order of the links: %w", err)
	}
	return nil
}

// begin moves all links with ranks to links_earlier. If a call of Move was interrupted, links_earlier still
// contains these links, and begin only removes the copies that Move has made. After it has locked the links, begin reads
// the order again, because another call of Begin may have changed it meanwhile.
func (d Database) begin(ctx context.Context, fingerprint string, lock func(context.Context, *sql.Tx) error) error {
	// After the wait in lock, the statements must find what other programs committed during the wait. So the transaction
	// needs the isolation level read committed, even if the database has another default. SQLite ignores the level.
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	if err := lock(ctx, tx); err != nil {
		return err
	}
	for _, statement := range d.dialect.exclude {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("lock the links, which another transaction may be using; stop all programs and try again: %w", err)
		}
	}
	recorded, pending, err := d.readLocked(ctx, tx)
	if err != nil || recorded == fingerprint {
		return err
	}
	statements := []string{
		`DROP TABLE IF EXISTS links_earlier`, // the table is empty, because no links are pending
		`CREATE TABLE links_earlier AS SELECT ` + columns + ` FROM ranked_links`,
		d.dialect.empty,
	}
	if pending {
		statements = []string{d.dialect.empty, removeMovedUnranked}
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := setOrder(ctx, tx, fingerprint); err != nil {
		return err
	}
	return tx.Commit()
}

// readLocked reads the order on record and whether links_earlier has links. The transaction must have locked the links.
func (d Database) readLocked(ctx context.Context, tx *sql.Tx) (fingerprint string, pending bool, err error) {
	if fingerprint, err = recorded(ctx, tx); err != nil {
		return "", false, err
	}
	exists, err := d.dialect.hasEarlier(ctx, tx)
	if err == nil && exists {
		err = tx.QueryRowContext(ctx, anyEarlier).Scan(&pending)
	}
	return fingerprint, pending, err
}

// These statements remove the links that Move has copied from links_earlier.
const (
	removeMovedRanked   = `DELETE FROM ranked_links WHERE code IN (SELECT code FROM links_earlier)`
	removeMovedUnranked = `DELETE FROM unranked_links WHERE code IN (SELECT code FROM links_earlier)`
)

func setOrder(ctx context.Context, tx *sql.Tx, fingerprint string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO link_order (id, fingerprint) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, moved_to = '', moved = 0`, fingerprint)
	return err
}

// Disown sets the Source of all links with one of the given sources to [shortener.SourceFormer]. It is
// called in the transaction that replaces the ledger from which the keys of these links came. With this
// Source, the audit does not count these links as keys of the new ledger. If a call of Move was
// interrupted, Disown removes the copies that Move has made, so that the next call of Move begins
// again. Move could not continue at the position that it has recorded: in PostgreSQL, the UPDATE of
// Disown changes the positions of the rows.
func (d Database) Disown(ctx context.Context, tx *sql.Tx, sources ...string) error {
	statements := []string{
		`UPDATE ranked_links SET source = $1 WHERE source = $2`,
		`UPDATE unranked_links SET source = $1 WHERE source = $2`,
	}
	earlier, err := d.dialect.hasEarlier(ctx, tx)
	if err != nil {
		return err
	}
	if earlier {
		statements = append(statements, `UPDATE links_earlier SET source = $1 WHERE source = $2`)
		for _, statement := range []string{removeMovedRanked, removeMovedUnranked, `UPDATE link_order SET moved_to = '', moved = 0`} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("begin the move of the links again: %w", err)
			}
		}
	}
	for _, statement := range statements {
		for _, source := range sources {
			if _, err := tx.ExecContext(ctx, statement, shortener.SourceFormer, source); err != nil {
				return fmt.Errorf("mark the links of the replaced ledger: %w", err)
			}
		}
	}
	return nil
}
