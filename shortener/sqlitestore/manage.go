package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"keypool/shortener"
)

// Change implements [shortener.Store].
func (s *Store) Change(ctx context.Context, old, changed shortener.Link) error {
	table, key := s.place(old.Code)
	result, err := s.db.Write.ExecContext(ctx, table.change,
		changed.URL, micros(changed.ExpiresAt), micros(changed.DeletedAt), detailsText(changed.Details), key, old.Code, old.Version())
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

// markDeleted sets the time of the deletion of a row that tx inserted. If the time is zero, it does nothing. The
// INSERT itself does not set this time: few links are inserted as tombstones, and one more value would make the insert
// of every link slower.
func (t *table) markDeleted(ctx context.Context, tx *sql.Tx, key any, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	_, err := tx.ExecContext(ctx, t.delete, at.UnixMicro(), key)
	return err
}

// Newest implements [shortener.Store]. For one owner, Newest reads an index. For all owners, it reads the table named
// creations, which records the order of the inserts.
func (s *Store) Newest(ctx context.Context, selection shortener.Selection) (links []shortener.Link, next string, err error) {
	if selection.Owner == 0 {
		links, next, err = s.newestOfAll(ctx, selection)
	} else {
		links, next, err = shortener.MergeNewest(s.order, selection,
			func(p shortener.ListPosition, limit int) ([]shortener.Link, error) {
				return s.ranked.ofOwner(ctx, s.db.Scan, selection.Owner, p.At, p.Rank, limit)
			},
			func(p shortener.ListPosition, limit int) ([]shortener.Link, error) {
				return s.unranked.ofOwner(ctx, s.db.Scan, selection.Owner, p.At, p.Code, limit)
			},
		)
	}
	if err != nil {
		return nil, "", fmt.Errorf("list links: %w", err)
	}
	return links, next, nil
}

// ofOwner reads up to limit links of the owner, from the newest to the oldest. It reads the links that were created
// before the given time (at). Of the links that were created at this time, it reads the links whose primary key is
// lower than the parameter key.
func (t *table) ofOwner(ctx context.Context, db *sql.DB, owner int64, at time.Time, key any, limit int) ([]shortener.Link, error) {
	return query(ctx, db, t.selectOwned, owner, at.UnixMicro(), key, limit)
}

// rows returns the links with the given codes in the same order. No code may occur twice. rows fails with ErrNotFound
// if a code has no row, and with ErrOtherOrder if the row at the place of a code has a code that is not in codes.
// rows reads each table once.
func (s *Store) rows(ctx context.Context, codes []string) ([]shortener.Link, error) {
	place := make(map[string]int, len(codes))
	keys := make(map[*table][]any)
	for i, code := range codes {
		table, key := s.place(code)
		place[code], keys[table] = i, append(keys[table], key)
	}
	links := make([]shortener.Link, len(codes))
	for table, keys := range keys {
		array, err := json.Marshal(keys)
		if err != nil {
			return nil, err
		}
		found, err := query(ctx, s.db.Scan, table.selectRows, string(array))
		if err != nil {
			return nil, err
		}
		for _, link := range found {
			i, ok := place[link.Code]
			if !ok {
				return nil, fmt.Errorf("%w: a row with the code %q is at the place of another code", shortener.ErrOtherOrder, link.Code)
			}
			links[i] = link
		}
	}
	for i, code := range codes {
		if links[i].Code == "" {
			return nil, fmt.Errorf("the code %q: %w", code, shortener.ErrNotFound)
		}
	}
	return links, nil
}

// query returns the links that a statement with the columns linkColumns reads.
func query(ctx context.Context, db *sql.DB, statement string, values ...any) (links []shortener.Link, err error) {
	rows, err := db.QueryContext(ctx, statement, values...)
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

// Oldest implements [shortener.Store]. SQLite sorts the links, and needs a temporary file if there are many links.
// Until the sequence ends, each write makes the write-ahead log grow.
func (s *Store) Oldest(ctx context.Context) iter.Seq2[shortener.Link, error] {
	return func(yield func(shortener.Link, error) bool) {
		rows, err := s.db.Scan.QueryContext(ctx, `SELECT `+linkColumns+` FROM all_links ORDER BY created_at, code`)
		if err != nil {
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
			return
		}
		defer func() { _ = rows.Close() }() // rows.Err returns the error of the query
		for rows.Next() {
			link, err := scanLink(rows)
			if !yield(link, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
		}
	}
}
