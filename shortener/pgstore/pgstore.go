// Package pgstore keeps links in PostgreSQL, or in an engine with the same protocol.
//
// Every statement is a separate transaction, so an interrupted method leaves no open
// transaction. Reads go to the same server as writes, because a replica may
// lack the newest links.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener"
)

// Store implements [shortener.Store].
type Store struct {
	pool *pgxpool.Pool
}

var _ shortener.Store = (*Store)(nil)

// New returns a store that uses the tables in the search path of pool. The caller closes pool.
func New(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool}
}

// Writers implements [shortener.Store]. Each connection can write.
func (s *Store) Writers() int { return int(s.pool.Config().MaxConns) }

const (
	// insertLinks returns only the codes that already had a row, because they are few.
	insertLinks = `WITH inserted AS (
			INSERT INTO links (code, url, source, created_at, expires_at)
			SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[])
			ON CONFLICT (code) DO NOTHING RETURNING code)
		SELECT code FROM unnest($1::text[]) AS wanted (code) WHERE code NOT IN (SELECT code FROM inserted)`
	selectLinks = `SELECT code, url, source, created_at, expires_at, deleted_at FROM links WHERE code = ANY($1::text[])`
	selectLink  = `SELECT url, source, created_at, expires_at, deleted_at FROM links WHERE code = $1`
)

// Insert implements [shortener.Store].
func (s *Store) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	defer conn.Release()
	c := newColumns(links)
	rows, err := conn.Query(ctx, insertLinks, c.codes, c.urls, c.sources, c.created, c.expires)
	if err != nil {
		return nil, s.insertFailed(err)
	}
	existing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.insertFailed(err)
	}
	if len(existing) == 0 && !c.repeatCode() {
		return slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links)), nil
	}
	stored, err := storedLinks(ctx, conn, existing)
	if err != nil {
		// The other rows are durable, so the error must not wrap ErrNotWritten.
		return nil, fmt.Errorf("look up the links in conflict: %w", err)
	}
	return outcomesOf(links, stored), nil
}

// outcomesOf returns the outcomes of links. The map stored holds the rows that existed before the
// INSERT.
func outcomesOf(links []shortener.Link, stored map[string]shortener.Link) []shortener.Outcome {
	outcomes := make([]shortener.Outcome, len(links))
	inserted := make(map[string]bool, len(links))
	for i, l := range links {
		row, exists := stored[l.Code]
		switch {
		case exists:
			outcomes[i] = shortener.OutcomeOfExisting(links, outcomes, i, row)
		case inserted[l.Code]:
			outcomes[i] = shortener.Conflict
		default:
			outcomes[i], inserted[l.Code] = shortener.Inserted, true
		}
	}
	return outcomes
}

// columns holds links as one slice per column, which are the arguments of unnest.
type columns struct {
	codes, urls, sources []string
	created              []time.Time
	expires              []pgtype.Timestamptz
}

// newColumns sorts the links by code. Two Inserts with the same codes wait for each other's rows.
// If they wrote the rows in different orders, they could deadlock.
func newColumns(links []shortener.Link) *columns {
	sorted := make([]*shortener.Link, len(links))
	for i := range links {
		sorted[i] = &links[i]
	}
	slices.SortStableFunc(sorted, func(a, b *shortener.Link) int { return cmp.Compare(a.Code, b.Code) })
	texts := make([]string, 3*len(links))
	c := &columns{
		codes:   texts[:len(links)],
		urls:    texts[len(links) : 2*len(links)],
		sources: texts[2*len(links):],
		created: make([]time.Time, len(links)),
		expires: make([]pgtype.Timestamptz, len(links)),
	}
	for i, l := range sorted {
		c.codes[i], c.urls[i], c.sources[i] = l.Code, l.URL, l.Source
		c.created[i] = l.CreatedAt
		c.expires[i] = pgtype.Timestamptz{Time: l.ExpiresAt, Valid: !l.ExpiresAt.IsZero()}
	}
	return c
}

// repeatCode reports whether two of the links have the same code.
func (c *columns) repeatCode() bool {
	for i := 1; i < len(c.codes); i++ {
		if c.codes[i] == c.codes[i-1] {
			return true
		}
	}
	return false
}

func storedLinks(ctx context.Context, conn *pgxpool.Conn, codes []string) (map[string]shortener.Link, error) {
	rows, err := conn.Query(ctx, selectLinks, codes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stored := make(map[string]shortener.Link)
	for rows.Next() {
		var code string
		link, err := scanLink(rows, &code)
		if err != nil {
			return nil, err
		}
		link.Code = code
		stored[code] = link
	}
	return stored, rows.Err()
}

// scanLink reads a row of selectLink or selectLinks. For selectLinks, first is the destination of
// the first column.
func scanLink(row pgx.Row, first ...any) (shortener.Link, error) {
	var link shortener.Link
	var created, expires, deleted pgtype.Timestamptz
	if err := row.Scan(append(first, &link.URL, &link.Source, &created, &expires, &deleted)...); err != nil {
		return shortener.Link{}, err
	}
	link.CreatedAt = created.Time.UTC()
	link.ExpiresAt = expires.Time.UTC() // the zero time for NULL
	link.DeletedAt = deleted.Time.UTC()
	return link, nil
}

// Lookup implements [shortener.Store].
func (s *Store) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	link, err := scanLink(s.pool.QueryRow(ctx, selectLink, code))
	if errors.Is(err, pgx.ErrNoRows) {
		return shortener.Link{}, shortener.ErrNotFound
	}
	if err != nil {
		return shortener.Link{}, fmt.Errorf("look up a link: %w", err)
	}
	link.Code = code
	return link, nil
}

// Delete implements [shortener.Store].
func (s *Store) Delete(ctx context.Context, code string, now time.Time) error {
	tag, err := s.pool.Exec(ctx, `UPDATE links SET deleted_at = coalesce(deleted_at, $2) WHERE code = $1`, code, now)
	if err != nil {
		s.resetIfReadOnly(err)
		return fmt.Errorf("delete a link: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return shortener.ErrNotFound
	}
	return nil
}

// All implements [shortener.Store]. It is one statement with one snapshot. The server sends the
// rows as fast as the caller reads them.
func (s *Store) All(ctx context.Context) iter.Seq2[shortener.Link, error] {
	return func(yield func(shortener.Link, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		rows, err := s.pool.Query(ctx, `SELECT code, source FROM links`)
		if err != nil {
			cancel()
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
			return
		}
		defer rows.Close()
		defer cancel() // before Close, which would read all remaining rows
		for rows.Next() {
			var link shortener.Link
			err := rows.Scan(&link.Code, &link.Source)
			if err != nil {
				break // rows.Err returns the same error
			}
			if !yield(link, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
		}
	}
}

// Ping implements [shortener.Store].
func (s *Store) Ping(ctx context.Context) error {
	var readOnly string
	err := s.pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only')`).Scan(&readOnly)
	if err == nil && readOnly == "on" {
		s.pool.Reset()
		err = errReadOnly
	}
	if err != nil {
		return fmt.Errorf("ping the link store: %w", err)
	}
	return nil
}
