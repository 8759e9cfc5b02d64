package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"sync/atomic"

	"keypool/shortener"
)

// table holds the statements for one of the two tables of links.
type table struct {
	insert      statement // inserts a row; the first value is the key
	delete      string    // sets the time of the deletion of the row with a key
	lookup      statement // reads the row with a key
	selectRows  string    // reads the rows with the keys in a JSON array
	change      string    // replaces the columns that may change in the row with a key, a code and a version
	selectPage  string    // reads the key, the code and the source of the rows after a key
	selectOwned string    // reads the rows of an owner after a position (a time and a key), from the newest to the oldest
	first       any       // a key before all others
}

// linkColumns are the columns that scanLink reads.
const linkColumns = `code, url, source, created_at, expires_at, deleted_at, details`

// newTable returns the statements for the table with the given name and key. The parameter
// first is a key before all others.
func newTable(name, key string, first any, columns, values string) *table {
	return &table{
		insert:     statement{query: `INSERT INTO ` + name + ` (` + columns + `) VALUES (` + values + `) ON CONFLICT (` + key + `) DO NOTHING`},
		delete:     `UPDATE ` + name + ` SET deleted_at = ? WHERE ` + key + ` = ?`,
		lookup:     statement{query: `SELECT ` + linkColumns + ` FROM ` + name + ` WHERE ` + key + ` = ?`},
		selectRows: `SELECT ` + linkColumns + ` FROM ` + name + ` WHERE ` + key + ` IN (SELECT value FROM json_each(?))`,
		change: `UPDATE ` + name + ` SET url = ?, expires_at = ?, deleted_at = ?, details = ?
			WHERE ` + key + ` = ? AND code = ? AND coalesce(json_extract(details, '$.version'), 1) = ? AND (deleted_at IS NULL OR deleted_at = ?3)`,
		selectOwned: `SELECT ` + linkColumns + ` FROM ` + name + ` WHERE details IS NOT NULL AND json_extract(details, '$.owner') = ?
			AND (created_at, ` + key + `) < (?, ?) ORDER BY created_at DESC, ` + key + ` DESC LIMIT ?`,
		selectPage: `SELECT ` + key + `, code, source FROM ` + name + ` WHERE ` + key + ` > ? ORDER BY ` + key + ` LIMIT ?`,
		first:      first,
	}
}

// rankedLinks returns the table of the links whose codes have a rank. Its key is the rank.
func rankedLinks() *table {
	return newTable("ranked_links", "rank", int64(math.MinInt64), "rank, code, url, source, created_at, expires_at, details", "?, ?, ?, ?, ?, ?, ?")
}

// unrankedLinks returns the table of the links whose codes have no rank. Its key is the code.
func unrankedLinks() *table {
	return newTable("unranked_links", "code", "", "code, url, source, created_at, expires_at, details", "?, ?, ?, ?, ?, ?")
}

// place returns the table to which code belongs, and the key of its row.
func (s *Store) place(code string) (*table, any) {
	if rank, ok := s.order.Rank(code); ok {
		return s.ranked, rank
	}
	return s.unranked, code
}

// all yields every row in the order of the keys.
func (t *table) all(ctx context.Context, db *sql.DB) iter.Seq2[shortener.Row, error] {
	after := t.first
	return shortener.Pages(ctx, pageRows, func(ctx context.Context) (page []shortener.Row, err error) {
		page, after, err = t.read(ctx, db, after)
		return page, err
	})
}

// read returns a page of rows, and the key of its last row.
func (t *table) read(ctx context.Context, db *sql.DB, after any) (page []shortener.Row, last any, err error) {
	rows, err := db.QueryContext(ctx, t.selectPage, after, pageRows)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	page = make([]shortener.Row, 0, pageRows)
	for rows.Next() {
		var row shortener.Row
		if err := rows.Scan(&last, &row.Code, &row.Source); err != nil {
			return nil, nil, err
		}
		row.Rank = shortener.NoRank
		if rank, ok := last.(int64); ok { // in unranked_links, the key is the code
			row.Rank = rank
		}
		page = append(page, row)
	}
	return page, last, rows.Err()
}

// statement is an SQL statement that is prepared at its first use, because the store may be
// created before its tables.
type statement struct {
	query string
	stmt  atomic.Pointer[sql.Stmt] // nil before prepare
}

// prepare prepares the statement on db unless an earlier call has prepared it.
func (s *statement) prepare(ctx context.Context, db *sql.DB) error {
	if s.stmt.Load() != nil {
		return nil
	}
	stmt, err := db.PrepareContext(ctx, s.query)
	if err != nil {
		return err
	}
	if !s.stmt.CompareAndSwap(nil, stmt) { // a concurrent caller was first
		return stmt.Close() //nolint:sqlclosecheck // s keeps the statement of the concurrent caller
	}
	return nil
}
