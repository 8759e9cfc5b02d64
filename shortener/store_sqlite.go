package shortener

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"keypool/internal/sqlite"
)

// allPage is how many rows All reads at a time. A single long read would keep the
// write-ahead log from being moved into the database, and it would grow and grow.
const allPage = 4096

const (
	sqliteInsert = `INSERT INTO links (code, url, source, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (code) DO NOTHING`
	sqliteSelect = `SELECT url, source, created_at, expires_at, deleted_at FROM links WHERE code = ?`
)

// SQLiteStore keeps links in an embedded database. Times are stored as microseconds
// since 1970.
//
// Waiting for a turn honours ctx; a statement that runs is not interrupted, because the
// driver would start a goroutine for each to watch ctx. It takes as long as the disk does,
// and an Insert up to the five seconds for which another process may hold the lock.
type SQLiteStore struct {
	db    *sqlite.DB
	turns chan struct{} // of look-ups, one a connection
	// Prepared when they are first used, because that takes the table to be there.
	lookup, insert atomic.Pointer[sql.Stmt]
}

var (
	_ Store  = (*SQLiteStore)(nil)
	_ serial = (*SQLiteStore)(nil)
)

// NewSQLiteStore makes a store of db, which it does not close.
func NewSQLiteStore(db *sqlite.DB) *SQLiteStore {
	return &SQLiteStore{db: db, turns: make(chan struct{}, db.Read.Stats().MaxOpenConnections)}
}

// serialInserts says that there is one writer, whatever the number of callers.
func (*SQLiteStore) serialInserts() {}

// Insert implements [Store].
func (s *SQLiteStore) Insert(ctx context.Context, links []Link) ([]Outcome, error) {
	// Before the only writing connection is taken, which preparing takes a turn of.
	insert, err := prepared(ctx, &s.insert, s.db.Write, sqliteInsert)
	if err != nil {
		return nil, fmt.Errorf("prepare to insert links: %w: %w", ErrNotWritten, err)
	}
	conn, err := s.db.Write.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait to insert links: %w: %w", ErrNotWritten, err)
	}
	defer func() { _ = conn.Close() }() // only gives it back to the pool
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, notWritten(err)
	}
	outcomes, err := insertIn(ctx, tx, insert, links)
	if err != nil {
		_ = tx.Rollback() // fails where SQLite has rolled back by itself
		return nil, notWritten(err)
	}
	if err := tx.Commit(); err != nil {
		return nil, commitFailed(err)
	}
	return outcomes, nil
}

func insertIn(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, links []Link) ([]Outcome, error) {
	insert = tx.StmtContext(ctx, insert) //nolint:sqlclosecheck // ends with the transaction
	outcomes := make([]Outcome, len(links))
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
			outcomes[i] = Inserted
			continue
		}
		row, err := scanSQLite(tx.QueryRowContext(ctx, sqliteSelect, l.Code), l.Code)
		if err != nil {
			return nil, err
		}
		outcomes[i] = judge(links, outcomes, i, row)
	}
	return outcomes, nil
}

// Lookup implements [Store].
func (s *SQLiteStore) Lookup(ctx context.Context, code string) (Link, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return Link{}, fmt.Errorf("wait to look up a link: %w", ctx.Err())
	}
	lookup, err := prepared(ctx, &s.lookup, s.db.Read, sqliteSelect) //nolint:sqlclosecheck // kept for the life of the store
	if err != nil {
		return Link{}, fmt.Errorf("look up a link: %w", err)
	}
	link, err := scanSQLite(lookup.QueryRowContext(context.WithoutCancel(ctx), code), code)
	if errors.Is(err, sql.ErrNoRows) {
		return Link{}, ErrNotFound
	}
	if err != nil {
		return Link{}, fmt.Errorf("look up a link: %w", err)
	}
	return link, nil
}

// prepared gives the statement kept in place, and prepares it on db when there is none yet.
func prepared(ctx context.Context, place *atomic.Pointer[sql.Stmt], db *sql.DB, query string) (*sql.Stmt, error) {
	if stmt := place.Load(); stmt != nil {
		return stmt, nil
	}
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if !place.CompareAndSwap(nil, stmt) { // somebody else was first
		return place.Load(), stmt.Close() //nolint:sqlclosecheck // the other one is kept
	}
	return stmt, nil
}

func scanSQLite(row *sql.Row, code string) (Link, error) {
	link := Link{Code: code}
	var created int64
	var expires, deleted sql.NullInt64
	if err := row.Scan(&link.URL, &link.Source, &created, &expires, &deleted); err != nil {
		return Link{}, err
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

// Delete implements [Store].
func (s *SQLiteStore) Delete(ctx context.Context, code string, now time.Time) error {
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
		return ErrNotFound
	}
	return nil
}

// All implements [Store]. It walks the rows in the order of their insertion, page by
// page. As rows are never removed, every one that was there at the start is seen.
func (s *SQLiteStore) All(ctx context.Context) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for after := int64(0); ; {
			page, last, err := s.page(ctx, after)
			if err != nil {
				yield(Link{}, fmt.Errorf("read all links: %w", err))
				return
			}
			for _, link := range page {
				if !yield(link, nil) {
					return
				}
			}
			if len(page) < allPage {
				return
			}
			after = last
		}
	}
}

func (s *SQLiteStore) page(ctx context.Context, after int64) (page []Link, last int64, err error) {
	rows, err := s.db.Read.QueryContext(ctx,
		`SELECT rowid, code, source FROM links WHERE rowid > ? ORDER BY rowid LIMIT ?`, after, allPage)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var link Link
		if err := rows.Scan(&last, &link.Code, &link.Source); err != nil {
			return nil, 0, err
		}
		page = append(page, link)
	}
	return page, last, rows.Err()
}

// Ping implements [Store]: it takes the write lock and lets it go again.
func (s *SQLiteStore) Ping(ctx context.Context) error {
	tx, err := s.db.Write.BeginTx(ctx, nil)
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		return fmt.Errorf("ping the link store: %w", err)
	}
	return nil
}

// micros is what a column that may be null holds of t.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// notWritten wraps the error of a transaction that did not come to its commit.
func notWritten(err error) error {
	switch code := resultCode(err); code & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	case sqlite3.SQLITE_FULL:
		err = fmt.Errorf("%w: %w", ErrStoreFull, err)
	case sqlite3.SQLITE_IOERR:
		if code == sqlite3.SQLITE_IOERR_SHMSIZE { // no room for the index of the log
			err = fmt.Errorf("%w: %w", ErrStoreFull, err)
		}
	}
	return fmt.Errorf("insert links: %w: %w", ErrNotWritten, err)
}

// commitFailed wraps the error of a commit. When the disk was full or the lock was
// not to be had, SQLite has rolled back. But a sync that failed may leave the whole
// transaction in the log, and after a crash it would be there.
func commitFailed(err error) error {
	switch resultCode(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY:
		return notWritten(err)
	}
	return fmt.Errorf("commit links: %w", err)
}

// resultCode is the extended result code of err, https://www.sqlite.org/rescode.html,
// or 0 when it is not an error of SQLite.
func resultCode(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
