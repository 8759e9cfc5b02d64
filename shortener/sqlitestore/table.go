package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"sync/atomic"

	"keypool/shortener"
)

// table holds the statements of one of the two tables of links.
type table struct {
	insert statement // inserts a row; the first value is the key
	lookup statement // reads the row with a key
	remove string    // turns the row with a key and a code into a tombstone
	page   string    // reads the key, the code and the source of the rows after a key
	first  any       // a key before all others
}

// rankedLinks returns the table of the links whose codes have a rank. Its key is the rank.
func rankedLinks() table {
	return table{
		insert: statement{query: `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (rank) DO NOTHING`},
		lookup: statement{query: `SELECT code, url, source, created_at, expires_at, deleted_at FROM ranked_links WHERE rank = ?`},
		remove: `UPDATE ranked_links SET deleted_at = coalesce(deleted_at, ?) WHERE rank = ? AND code = ?`,
		page:   `SELECT rank, code, source FROM ranked_links WHERE rank > ? ORDER BY rank LIMIT ?`,
		first:  int64(-1),
	}
}

// unrankedLinks returns the table of the links whose codes have no rank. Its key is the code.
func unrankedLinks() table {
	return table{
		insert: statement{query: `INSERT INTO unranked_links (code, url, source, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?) ON CONFLICT (code) DO NOTHING`},
		lookup: statement{query: `SELECT code, url, source, created_at, expires_at, deleted_at FROM unranked_links WHERE code = ?`},
		remove: `UPDATE unranked_links SET deleted_at = coalesce(deleted_at, ?) WHERE code = ? AND code = ?`,
		page:   `SELECT code, code, source FROM unranked_links WHERE code > ? ORDER BY code LIMIT ?`,
		first:  "",
	}
}

// place returns the table to which code belongs, and the key of its row.
func (s *Store) place(code string) (*table, any) {
	if rank, ok := s.order.Rank(code); ok {
		return &s.ranked, rank
	}
	return &s.unranked, code
}

// all yields the code and the source of every row in the order of the keys.
func (t *table) all(ctx context.Context, db *sql.DB) iter.Seq2[shortener.Link, error] {
	after := t.first
	return shortener.Pages(ctx, pageRows, func(ctx context.Context) (page []shortener.Link, err error) {
		page, after, err = t.read(ctx, db, after)
		return page, err
	})
}

// read returns a page of rows, and the key of its last row.
func (t *table) read(ctx context.Context, db *sql.DB, after any) (page []shortener.Link, last any, err error) {
	rows, err := db.QueryContext(ctx, t.page, after, pageRows)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	page = make([]shortener.Link, 0, pageRows)
	for rows.Next() {
		var link shortener.Link
		if err := rows.Scan(&last, &link.Code, &link.Source); err != nil {
			return nil, nil, err
		}
		page = append(page, link)
	}
	return page, last, rows.Err()
}

// statement is a statement that is prepared at its first use, because the store may be created
// before its tables.
type statement struct {
	query string
	stmt  atomic.Pointer[sql.Stmt] // nil before prepare
}

// prepare prepares the statement on db unless an earlier call did.
func (s *statement) prepare(ctx context.Context, db *sql.DB) error {
	if s.stmt.Load() != nil {
		return nil
	}
	stmt, err := db.PrepareContext(ctx, s.query)
	if err != nil {
		return err
	}
	if !s.stmt.CompareAndSwap(nil, stmt) { // a concurrent caller was first
		return stmt.Close() //nolint:sqlclosecheck // the other statement is kept
	}
	return nil
}
