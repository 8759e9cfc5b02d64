// Package sqlitestore keeps links in an embedded SQLite database.
//
// Times are stored as microseconds since 1970. The database has one connection for writing and
// several connections for reading (package keypool/internal/sqlite). So Inserts run one after the
// other, and readers do not wait for them.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"keypool/internal/sqlite"
	"keypool/shortener"
)

const (
	insertLink = `INSERT INTO links (code, url, source, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (code) DO NOTHING`
	selectLink = `SELECT url, source, created_at, expires_at, deleted_at FROM links WHERE code = ?`
)

// Store implements [shortener.Store].
//
// If ctx ends while a method waits for a connection, the method returns. If ctx ends during a
// statement, the statement continues, because the driver would need a goroutine per statement to
// interrupt it. A statement takes as long as the disk needs. An Insert takes up to five seconds
// more while another process holds the write lock.
type Store struct {
	db    *sqlite.DB
	turns chan struct{} // holds a token for each running Lookup; its capacity is the number of reading connections
	// The statements are prepared at their first use, because the store may be created before
	// the table.
	lookup, insert atomic.Pointer[sql.Stmt]
}

var _ shortener.Store = (*Store)(nil)

// New returns a store that uses db. The caller closes db.
func New(db *sqlite.DB) *Store {
	return &Store{db: db, turns: make(chan struct{}, db.Read.Stats().MaxOpenConnections)}
}

// Writers implements [shortener.Store]. SQLite has one writer.
func (*Store) Writers() int { return 1 }

// Insert implements [shortener.Store].
func (s *Store) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	// Prepare the statement before taking the only writing connection, because the function
	// prepared needs this connection too.
	insert, err := prepared(ctx, &s.insert, s.db.Write, insertLink)
	if err != nil {
		return nil, fmt.Errorf("prepare to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	conn, err := s.db.Write.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the connection to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	defer func() { _ = conn.Close() }() // only returns the connection to its pool
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, notWritten(err)
	}
	outcomes, err := insertIn(ctx, tx, insert, links)
	if err != nil {
		_ = tx.Rollback() // fails if SQLite has rolled back by itself
		return nil, notWritten(err)
	}
	if err := tx.Commit(); err != nil {
		return nil, commitFailed(err)
	}
	return outcomes, nil
}

func insertIn(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, links []shortener.Link) ([]shortener.Outcome, error) {
	insert = tx.StmtContext(ctx, insert) //nolint:sqlclosecheck // ends with the transaction
	outcomes := make([]shortener.Outcome, len(links))
	for i := range links {
		l := &links[i]
		result, err := insert.ExecContext(ctx, l.Code, l.URL, l.Source, l.CreatedAt.UnixMicro(), micros(l.ExpiresAt))
		if err != nil {
			return nil, err
		}
		inserted, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		if inserted == 1 {
			outcomes[i] = shortener.Inserted
			continue
		}
		stored, err := scanLink(tx.QueryRowContext(ctx, selectLink, l.Code), l.Code)
		if err != nil {
			return nil, err
		}
		outcomes[i] = shortener.OutcomeOfExisting(links, outcomes, i, stored)
	}
	return outcomes, nil
}

// Lookup implements [shortener.Store].
func (s *Store) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return shortener.Link{}, fmt.Errorf("wait for a connection to look up a link: %w", ctx.Err())
	}
	lookup, err := prepared(ctx, &s.lookup, s.db.Read, selectLink) //nolint:sqlclosecheck // stays open as long as the store
	if err != nil {
		return shortener.Link{}, fmt.Errorf("look up a link: %w", err)
	}
	link, err := scanLink(lookup.QueryRowContext(context.WithoutCancel(ctx), code), code)
	if errors.Is(err, sql.ErrNoRows) {
		return shortener.Link{}, shortener.ErrNotFound
	}
	if err != nil {
		return shortener.Link{}, fmt.Errorf("look up a link: %w", err)
	}
	return link, nil
}

// prepared returns the statement that is stored in place. The first call prepares query on db and
// stores the statement.
func prepared(ctx context.Context, place *atomic.Pointer[sql.Stmt], db *sql.DB, query string) (*sql.Stmt, error) {
	if stmt := place.Load(); stmt != nil {
		return stmt, nil
	}
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if !place.CompareAndSwap(nil, stmt) { // a concurrent caller was first
		return place.Load(), stmt.Close() //nolint:sqlclosecheck // the other statement is kept
	}
	return stmt, nil
}

func scanLink(row *sql.Row, code string) (shortener.Link, error) {
	link := shortener.Link{Code: code}
	var created int64
	var expires, deleted sql.NullInt64
	if err := row.Scan(&link.URL, &link.Source, &created, &expires, &deleted); err != nil {
		return shortener.Link{}, err
	}
	link.CreatedAt = time.UnixMicro(created).UTC()
	if expires.Valid {
		link.ExpiresAt = time.UnixMicro(expires.Int64).UTC()
	}
	if deleted.Valid {
		link.DeletedAt = time.UnixMicro(deleted.Int64).UTC()
	}
	return link, nil
}

// Delete implements [shortener.Store].
func (s *Store) Delete(ctx context.Context, code string, now time.Time) error {
	result, err := s.db.Write.ExecContext(ctx,
		`UPDATE links SET deleted_at = coalesce(deleted_at, ?) WHERE code = ?`, now.UnixMicro(), code)
	if err != nil {
		return fmt.Errorf("delete a link: %w", err)
	}
	found, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("delete a link: %w", err)
	}
	if found == 0 {
		return shortener.ErrNotFound
	}
	return nil
}

// pageRows is how many rows All reads at a time. One long read would block the checkpoint
// of the write-ahead log, and the log would grow without bound.
const pageRows = 4096

// All implements [shortener.Store]. It reads the rows in the order of their insertion,
// page by page. Rows are never removed, so it yields every row that existed at the start.
func (s *Store) All(ctx context.Context) iter.Seq2[shortener.Link, error] {
	return func(yield func(shortener.Link, error) bool) {
		for after := int64(0); ; {
			page, last, err := s.page(ctx, after)
			if err != nil {
				yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
				return
			}
			for _, link := range page {
				if !yield(link, nil) {
					return
				}
			}
			if len(page) < pageRows {
				return
			}
			after = last
		}
	}
}

func (s *Store) page(ctx context.Context, after int64) (page []shortener.Link, last int64, err error) {
	rows, err := s.db.Read.QueryContext(ctx,
		`SELECT rowid, code, source FROM links WHERE rowid > ? ORDER BY rowid LIMIT ?`, after, pageRows)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var link shortener.Link
		if err := rows.Scan(&last, &link.Code, &link.Source); err != nil {
			return nil, 0, err
		}
		page = append(page, link)
	}
	return page, last, rows.Err()
}

// Ping implements [shortener.Store]. It takes the write lock and releases it.
func (s *Store) Ping(ctx context.Context) error {
	tx, err := s.db.Write.BeginTx(ctx, nil)
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		return fmt.Errorf("ping the link store: %w", err)
	}
	return nil
}

// micros returns t in microseconds since 1970, or nil (NULL) for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}
