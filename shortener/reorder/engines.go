package reorder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// SQLite returns the SQLite database behind db. The connections of db must be able to write. A row of
// links_earlier is identified by its rowid. The rowids are in the order of the inserts.
func SQLite(db *sql.DB) Database {
	const from = ` FROM links_earlier WHERE rowid = CAST(? AS INTEGER)`
	return Database{db, dialect{
		exists:   `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'links_earlier'`,
		empty:    `DELETE FROM ranked_links`,
		missing:  `SELECT count(*) = 0 FROM pragma_table_info('links_earlier') WHERE name = 'details'`,
		details:  `ALTER TABLE links_earlier ADD COLUMN details TEXT`,
		finish:   recordCreations,
		next:     nextRows,
		ranked:   each(`INSERT INTO ranked_links (rank, `+columns+`) SELECT ?, `+columns+from, func(r row) []any { return []any{r.rank, r.position} }),
		unranked: each(`INSERT INTO unranked_links (`+columns+`) SELECT `+columns+from, func(r row) []any { return []any{r.position} }),
	}}
}

// recordCreations fills the table creations with all links in the order of their creation. If the table
// already has rows, it does nothing.
func recordCreations(ctx context.Context, tx *sql.Tx) error {
	var filled bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM creations)`).Scan(&filled); err != nil || filled {
		return err
	}
	// The check is a separate statement, because SQLite would evaluate a condition of the INSERT only after it has
	// sorted all links.
	_, err := tx.ExecContext(ctx, `INSERT INTO creations (codes)
		SELECT group_concat(code, ' ')
		FROM (SELECT code, (row_number() OVER (ORDER BY created_at) - 1) / 256 AS part FROM all_links)
		GROUP BY part ORDER BY part`)
	return err
}

// nextRows reads the next pageRows rows of links_earlier in SQLite.
func nextRows(ctx context.Context, db *sql.DB, after string) (page page, err error) {
	page.rows, err = query(ctx, db, `SELECT CAST(rowid AS TEXT), code FROM links_earlier
		WHERE rowid > CAST($1 AS INTEGER) ORDER BY rowid LIMIT $2`, after, pageRows)
	if len(page.rows) > 0 {
		page.end = page.rows[len(page.rows)-1].position
	}
	return page, err
}

// each returns a function that executes the statement once for each row.
func each(statement string, args func(row) []any) func(context.Context, *sql.Tx, []row) (int64, error) {
	return func(ctx context.Context, tx *sql.Tx, rows []row) (moved int64, err error) {
		stmt, err := tx.PrepareContext(ctx, statement)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, stmt.Close()) }()
		for _, r := range rows {
			result, err := stmt.ExecContext(ctx, args(r)...)
			if err != nil {
				return 0, err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return 0, err
			}
			moved += n
		}
		return moved, nil
	}
}

// Postgres returns the PostgreSQL database behind db. A row of links_earlier is identified by its ctid,
// which is its physical position. The ctids are in the order of the inserts, and do not change while no
// statement writes to the table.
func Postgres(db *sql.DB) Database {
	return Database{db, dialect{
		exists:  `SELECT to_regclass('links_earlier') IS NOT NULL`,
		exclude: []string{`SET LOCAL lock_timeout = '5s'`, `LOCK TABLE ranked_links, unranked_links IN ACCESS EXCLUSIVE MODE`},
		empty:   `TRUNCATE ranked_links`, // unlike DELETE, it writes no log for each row and leaves no dead rows
		missing: `SELECT NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('links_earlier') AND attname = 'details')`,
		details: `ALTER TABLE links_earlier ADD COLUMN details jsonb`,
		finish:  func(context.Context, *sql.Tx) error { return nil }, // PostgreSQL lists links by an index
		next:    nextBlocks,
		ranked: together(`INSERT INTO ranked_links (rank, ` + columns + `)
			SELECT wanted.rank, ` + columns + ` FROM unnest($1::text[]::tid[], $2::bigint[]) AS wanted (position, rank)
			JOIN links_earlier ON links_earlier.ctid = wanted.position`),
		unranked: together(`INSERT INTO unranked_links (` + columns + `)
			SELECT ` + columns + ` FROM unnest($1::text[]::tid[], $2::bigint[]) AS wanted (position, rank)
			JOIN links_earlier ON links_earlier.ctid = wanted.position`),
	}}
}

// pageBlocks is the number of blocks of links_earlier in PostgreSQL that one transaction moves. A block
// of 8 KiB contains up to about 100 links.
const pageBlocks = 100

// nextBlocks reads the rows in the next pageBlocks blocks of links_earlier in PostgreSQL. Its query reads
// only these blocks. A query with ORDER BY and LIMIT would sort all following rows for each page.
func nextBlocks(ctx context.Context, db *sql.DB, after string) (page page, err error) {
	var block, blocks int64
	err = db.QueryRowContext(ctx, `SELECT pg_relation_size('links_earlier') / current_setting('block_size')::bigint`).Scan(&blocks)
	if err != nil {
		return page, err
	}
	if after == "" {
		after = "(0,0)"
	}
	if _, err := fmt.Sscanf(after, "(%d,", &block); err != nil {
		return page, fmt.Errorf("position %q: %w", after, err)
	}
	if block >= blocks {
		return page, nil
	}
	page.end = fmt.Sprintf("(%d,0)", block+pageBlocks)
	page.rows, err = query(ctx, db, `SELECT ctid::text, code FROM links_earlier WHERE ctid > $1::text::tid AND ctid < $2::text::tid`, after, page.end)
	return page, err
}

// together returns a function that executes the statement once for all rows. The parameters of the
// statement are the positions and the ranks.
func together(statement string) func(context.Context, *sql.Tx, []row) (int64, error) {
	return func(ctx context.Context, tx *sql.Tx, rows []row) (int64, error) {
		positions, ranks := make([]string, len(rows)), make([]int64, len(rows))
		for i, r := range rows {
			positions[i], ranks[i] = r.position, r.rank
		}
		result, err := tx.ExecContext(ctx, statement, positions, ranks)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
}
