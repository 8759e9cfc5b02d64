package reorder

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"keypool/shortener"
)

// Begin changes the order of the links to the order with this fingerprint. [Database.Move] must follow,
// and no program may use the links until it has moved all of them. Begin copies the links, so it needs
// as much disk space as the links, and it takes one transaction. After a crash, either it has had no
// effect, or Move continues. Begin does nothing if the database already has the order.
//
// own are the Sources of links with keys of the ledger that the former order belongs to. Begin
// replaces them by [shortener.SourceFormer], because the numbers of these links no longer are numbers of
// the ledger.
func (d Database) Begin(ctx context.Context, fingerprint string, own ...string) error {
	recorded, err := d.Recorded(ctx)
	if err != nil || recorded == fingerprint {
		return err
	}
	pending, err := d.Pending(ctx)
	if err == nil {
		err = d.begin(ctx, fingerprint, pending, own)
	}
	if err != nil {
		return fmt.Errorf("change the order of the links: %w", err)
	}
	return nil
}

// begin moves all ranked links to links_earlier. If a move was interrupted, links_earlier already
// contains them, and begin removes the links that were moved.
func (d Database) begin(ctx context.Context, fingerprint string, pending bool, own []string) error {
	statements := []string{
		`DROP TABLE IF EXISTS links_earlier`, // without links
		`CREATE TABLE links_earlier AS SELECT ` + columns + ` FROM ranked_links`,
		`DELETE FROM ranked_links`,
	}
	if pending {
		statements = []string{
			`DELETE FROM ranked_links`,
			`DELETE FROM unranked_links WHERE code IN (SELECT code FROM links_earlier)`,
		}
	}
	if len(own) > 0 {
		statements = append(statements, `UPDATE links_earlier SET source = '`+shortener.SourceFormer+`' WHERE source IN ('`+strings.Join(own, `', '`)+`')`)
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
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

func setOrder(ctx context.Context, tx *sql.Tx, fingerprint string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO link_order (id, fingerprint) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, moved_to = '', moved = 0`, fingerprint)
	return err
}
