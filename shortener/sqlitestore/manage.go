package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/shortener"
)

// Change implements [shortener.Store].
func (s *Store) Change(ctx context.Context, old, changed shortener.Link) error {
	table, key := s.place(old.Code)
	result, err := s.db.Write.ExecContext(ctx, table.change,
		changed.URL, micros(changed.ExpiresAt), micros(changed.DeletedAt), changed.Details.Text(), key, old.Code, old.Version())
	if err != nil {
		return fmt.Errorf("change a link: %w", err)
	}
	found, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("change a link: %w", err)
	}
	if found == 0 {
		return shortener.ErrChanged
	}
	return nil
}

// Newest implements [shortener.Store].
func (s *Store) Newest(ctx context.Context, selection shortener.Selection) ([]shortener.Link, error) {
	links, err := shortener.MergeNewest(s.order, selection,
		func(p shortener.Before) ([]shortener.Link, error) {
			return s.ranked.list(ctx, s.db.Read, selection, p.At, p.Rank)
		},
		func(p shortener.Before) ([]shortener.Link, error) {
			return s.unranked.list(ctx, s.db.Read, selection, p.At, p.Code)
		},
	)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return links, nil
}

// list reads the links of the selection that were created before at, and those that were created at this
// time and have a lower key.
func (t *table) list(ctx context.Context, db *sql.DB, s shortener.Selection, at time.Time, key any) (links []shortener.Link, err error) {
	query, values := t.newest, []any{at.UnixMicro(), key, s.Limit}
	if s.Owner != 0 {
		query, values = t.owned, []any{at.UnixMicro(), key, s.Owner, s.Limit}
	}
	rows, err := db.QueryContext(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		link, err := scanLink(rows)
		if err != nil {
			return nil, err
		}
		links = append(links, link)
	}
	return links, rows.Err()
}
