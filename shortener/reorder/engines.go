package reorder

import (
	"context"
	"database/sql"
	"errors"
)

// SQLite returns the database behind db, which must be able to write. A row of links_earlier is
// identified by its rowid, which is in the order of the inserts.
func SQLite(db *sql.DB) Database {
	const from = ` FROM links_earlier WHERE rowid = CAST(? AS INTEGER)`
	return Database{db, dialect{
		exists:   `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'links_earlier'`,
		page:     `SELECT CAST(rowid AS TEXT), code FROM links_earlier WHERE rowid > CAST($1 AS INTEGER) ORDER BY rowid LIMIT $2`,
		ranked:   each(`INSERT INTO ranked_links (rank, `+columns+`) SELECT ?, `+columns+from, func(r row) []any { return []any{r.rank, r.position} }),
		unranked: each(`INSERT INTO unranked_links (`+columns+`) SELECT `+columns+from, func(r row) []any { return []any{r.position} }),
	}}
}

// each returns a function that executes a statement for each row.
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

// Postgres returns the database behind db. A row of links_earlier is identified by its ctid, which is
// in the order of the inserts and does not change while no statement writes to the table.
func Postgres(db *sql.DB) Database {
	return Database{db, dialect{
		exists: `SELECT to_regclass('links_earlier') IS NOT NULL`,
		page:   `SELECT ctid::text AS position, code FROM links_earlier WHERE ctid > coalesce(nullif($1, ''), '(0,0)')::tid ORDER BY ctid LIMIT $2`,
		ranked: together(`INSERT INTO ranked_links (rank, ` + columns + `)
			SELECT wanted.rank, ` + columns + ` FROM unnest($1::text[]::tid[], $2::bigint[]) AS wanted (position, rank)
			JOIN links_earlier ON links_earlier.ctid = wanted.position`),
		unranked: together(`INSERT INTO unranked_links (` + columns + `)
			SELECT ` + columns + ` FROM unnest($1::text[]::tid[], $2::bigint[]) AS wanted (position, rank)
			JOIN links_earlier ON links_earlier.ctid = wanted.position`),
	}}
}

// together returns a function that executes a statement for all rows. The parameters of the
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
