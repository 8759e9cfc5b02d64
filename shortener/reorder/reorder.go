// Package reorder keeps a record of the [shortener.Order] of the links in a database, and moves links
// into that order.
//
// Since version 7 of the schema, the primary key of most links is the rank of the code. Before version 7, the
// primary key was the code. The migration to version 7 renames the table of links to links_earlier. The
// migration consists of SQL statements, which cannot compute ranks. So a program calls [Database.Move] before
// it uses the links. [Database.Begin] also fills links_earlier, to change the order.
//
// Invariants:
//
//   - The order of a database is recorded before its first link is stored.
//   - A move copies each link of links_earlier to ranked_links or unranked_links. The link stays in links_earlier until
//     all links are moved. Then links_earlier is dropped.
//   - While links_earlier has rows, no program creates or looks up links.
package reorder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"keypool/shortener"
)

// Database is a database that contains links. Its methods other than Move and Begin may be called concurrently.
type Database struct {
	db      *sql.DB
	dialect dialect
}

// dialect contains the SQL statements that differ between the database engines.
type dialect struct {
	exists   string                                                                     // selects whether the table links_earlier exists
	exclude  []string                                                                   // locks the tables until the transaction ends, because a process that was suspended may continue and insert a link
	empty    string                                                                     // removes all rows of ranked_links
	missing  string                                                                     // selects whether links_earlier lacks the column "details"
	details  string                                                                     // adds the column "details" to links_earlier
	finish   func(ctx context.Context, tx *sql.Tx) error                                // completes a move, in the transaction that drops links_earlier
	next     func(ctx context.Context, db *sql.DB, after string) (page, error)          // reads the page after a position; "" means from the first row
	ranked   func(ctx context.Context, tx *sql.Tx, rows []row) (moved int64, err error) // moves rows with a rank
	unranked func(ctx context.Context, tx *sql.Tx, rows []row) (moved int64, err error) // moves rows without a rank
}

// row is a row of links_earlier.
type row struct {
	position string // place of the row in its table: the rowid in SQLite, the ctid in PostgreSQL
	code     string
	rank     int64 // not used if the code has no rank
}

// page is a section of links_earlier that one transaction moves.
type page struct {
	rows []row
	end  string // the position at which the page ends; "" if the page is after the last row
}

// columns are the columns that all tables of links have.
const columns = `code, url, source, created_at, expires_at, deleted_at, details`

// Record records that the database keeps its links in the order with this fingerprint. If an order is already
// on record, Record changes nothing. It returns the fingerprint on record.
func (d Database) Record(ctx context.Context, fingerprint string) (recorded string, err error) {
	recorded, err = d.Recorded(ctx)
	if err != nil || recorded != "" {
		return recorded, err
	}
	_, err = d.db.ExecContext(ctx,
		`INSERT INTO link_order (id, fingerprint) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, fingerprint)
	if err != nil {
		return "", fmt.Errorf("record the order of the links: %w", err)
	}
	return d.Recorded(ctx) // another process may have recorded an order first
}

// ErrUnrecorded reports that the database has links with ranks, but no order on record, because the record was
// removed.
var ErrUnrecorded = errors.New("the order of the links is not on record, although there are links: stop all servers and run `shortener reindex`")

// Recorded returns the fingerprint on record, or "" if no order is on record and no link has a rank. If there
// are links with ranks but no order on record, it fails with ErrUnrecorded.
func (d Database) Recorded(ctx context.Context) (fingerprint string, err error) {
	if fingerprint, err = recorded(ctx, d.db); err == nil && fingerprint == "" {
		// The next query needs an answer from every database server with links, and one of these servers may be down. So
		// Recorded runs this query only if no order is on record.
		var links bool
		if err = d.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM ranked_links)`).Scan(&links); err == nil && links {
			fingerprint, err = recorded(ctx, d.db) // read again, because another process may have recorded the order and then inserted the link
		}
		if err == nil && links && fingerprint == "" {
			return "", ErrUnrecorded
		}
	}
	if err != nil {
		return "", fmt.Errorf("read the order of the links: %w", err)
	}
	return fingerprint, nil
}

// anyEarlier selects whether links_earlier has links.
const anyEarlier = `SELECT count(*) > 0 FROM (SELECT code FROM links_earlier LIMIT 1) AS first`

// Pending reports whether links_earlier contains links. Before a program uses the database, Move must move these
// links.
func (d Database) Pending(ctx context.Context) (pending bool, err error) {
	exists, err := d.Exists(ctx)
	if err == nil && exists {
		err = d.db.QueryRowContext(ctx, anyEarlier).Scan(&pending)
	}
	if exists && err != nil { // another process may have dropped the table between the two statements
		if still, again := d.Exists(ctx); again == nil && !still {
			return false, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("look for links to move: %w", err)
	}
	return pending, nil
}

// Exists reports whether the database has the table links_earlier, which may be empty.
func (d Database) Exists(ctx context.Context) (bool, error) { return d.dialect.hasEarlier(ctx, d.db) }

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// recorded reads the fingerprint of the order on record. It returns "" if no order is on record.
func recorded(ctx context.Context, q querier) (fingerprint string, err error) {
	err = q.QueryRowContext(ctx, `SELECT fingerprint FROM link_order WHERE id = 1`).Scan(&fingerprint)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return fingerprint, err
}

// hasEarlier reports whether the table links_earlier exists.
func (d dialect) hasEarlier(ctx context.Context, q querier) (exists bool, err error) {
	err = q.QueryRowContext(ctx, d.exists).Scan(&exists)
	return exists, err
}

// pageRows is the maximum number of links that one transaction on SQLite moves.
const pageRows = 10_000

// errChanged reports that the links changed while they were moved.
var errChanged = errors.New("the table links_earlier changed while its links were moved")

// Move moves all links of links_earlier to the tables ranked_links and unranked_links, and drops links_earlier. If
// the table links_earlier does not exist, Move does nothing. If links_earlier has rows and the order on record is
// not the parameter order, Move fails with [shortener.ErrOtherOrder]. If links_earlier is empty, the parameter order
// may be nil. After each transaction, Move calls progress with the number of moved links and the number of all
// links. Only one process at a time may call Move or [Database.Begin]. A process that has lost its lock may still move links
// while another process moves them. Then the primary key of the links makes one of the two processes fail.
//
// After a crash, the next call continues after the last transaction. Move needs as much free disk space as the
// links occupy.
func (d Database) Move(ctx context.Context, order shortener.Order, progress func(moved, total int64)) error {
	exists, err := d.Exists(ctx)
	if err == nil && exists {
		err = d.move(ctx, order, progress)
	}
	if err != nil {
		return fmt.Errorf("move the links to their new tables: %w", err)
	}
	return nil
}

func (d Database) move(ctx context.Context, order shortener.Order, progress func(moved, total int64)) error {
	if err := d.addDetails(ctx); err != nil {
		return err
	}
	var total, moved int64
	var after, fingerprint string
	if err := d.db.QueryRowContext(ctx, `SELECT count(*) FROM links_earlier`).Scan(&total); err != nil {
		return err
	}
	if total > 0 {
		err := d.db.QueryRowContext(ctx, `SELECT moved_to, moved, fingerprint FROM link_order WHERE id = 1`).Scan(&after, &moved, &fingerprint)
		if err != nil {
			return err
		}
		if order == nil || order.Fingerprint() != fingerprint {
			return shortener.ErrOtherOrder
		}
	}
	for {
		page, err := d.dialect.next(ctx, d.db, after)
		if err != nil {
			return err
		}
		if page.end == "" {
			break
		}
		after, moved = page.end, moved+int64(len(page.rows))
		if err := d.movePage(ctx, order, page, moved); err != nil {
			return err
		}
		progress(moved, total)
	}
	if moved != total {
		return fmt.Errorf("%w: the table has %d rows, but %d were moved; keep the table and restore a backup", errChanged, total, moved)
	}
	return d.finish(ctx)
}

// addDetails adds the column "details" to links_earlier if the table lacks this column. A table that was created before
// version 9 of the schema lacks it.
func (d Database) addDetails(ctx context.Context) error {
	var missing bool
	err := d.db.QueryRowContext(ctx, d.dialect.missing).Scan(&missing)
	if err == nil && missing {
		_, err = d.db.ExecContext(ctx, d.dialect.details)
	}
	return err
}

// finish drops links_earlier after all its links have been moved.
func (d Database) finish(ctx context.Context) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	if err := d.dialect.finish(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS links_earlier`); err != nil {
		return err
	}
	return tx.Commit()
}

// query returns rows of links_earlier.
func query(ctx context.Context, db *sql.DB, statement string, args ...any) (all []row, err error) {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.position, &r.code); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// movePage moves the rows of a page and records the progress in one transaction.
func (d Database) movePage(ctx context.Context, order shortener.Order, page page, moved int64) error {
	var ranked, unranked []row
	for _, r := range page.rows {
		var ok bool
		if r.rank, ok = order.Rank(r.code); ok {
			ranked = append(ranked, r)
		} else {
			unranked = append(unranked, r)
		}
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	first, err := d.dialect.ranked(ctx, tx, ranked)
	if err != nil {
		return err
	}
	second, err := d.dialect.unranked(ctx, tx, unranked)
	if err != nil {
		return err
	}
	if first+second != int64(len(page.rows)) {
		return errChanged
	}
	_, err = tx.ExecContext(ctx, `UPDATE link_order SET moved_to = $1, moved = $2 WHERE id = 1`, page.end, moved)
	if err != nil {
		return err
	}
	return tx.Commit()
}
