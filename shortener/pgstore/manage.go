package pgstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener"
)

// Change implements [shortener.Store].
func (s *Store) Change(ctx context.Context, old, changed shortener.Link) error {
	table, key := s.place(old.Code)
	tag, err := s.pool.Exec(ctx, `UPDATE `+table.name+` SET url = $4, expires_at = $5, deleted_at = $6, details = $7::text::jsonb
		WHERE `+table.key+` = $1 AND code = $2 AND coalesce((details->>'version')::bigint, 1) = $3 AND (deleted_at IS NULL OR deleted_at = $6)`,
		key, old.Code, old.Version(), changed.URL, orNull(changed.ExpiresAt), orNull(changed.DeletedAt), changed.Details.Text())
	if err != nil {
		s.resetIfReadOnly(err)
		return fmt.Errorf("change a link: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return shortener.ErrChanged
	}
	return nil
}

// table is one of the two tables of links.
type table struct{ name, key string }

// place returns the table to which code belongs, and the key of its row.
func (s *Store) place(code string) (table, any) {
	if rank, ok := s.order.Rank(code); ok {
		return rankedLinks(), rank
	}
	return unrankedLinks(), code
}

func rankedLinks() table   { return table{"ranked_links", "rank"} }
func unrankedLinks() table { return table{"unranked_links", "code"} }

// orNull returns NULL for the zero time.
func orNull(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// Newest implements [shortener.Store].
func (s *Store) Newest(ctx context.Context, selection shortener.Selection) ([]shortener.Link, string, error) {
	links, next, err := shortener.MergeNewest(s.order, selection,
		func(p shortener.ListPosition, limit int) ([]shortener.Link, error) {
			return list(ctx, s.pool, rankedLinks(), selection.Owner, p.At, p.Rank, limit)
		},
		func(p shortener.ListPosition, limit int) ([]shortener.Link, error) {
			return list(ctx, s.pool, unrankedLinks(), selection.Owner, p.At, p.Code, limit)
		},
	)
	if err != nil {
		return nil, "", fmt.Errorf("list links: %w", err)
	}
	return links, next, nil
}

// list reads up to limit links of the owner, from the newest to the oldest. If owner is 0, list reads
// the links of all owners. The parameters at and key are a position in this order. list reads the links after
// this position: links with an earlier time of creation, and links with the same time and a lower key.
func list[K any](ctx context.Context, pool *pgxpool.Pool, t table, owner int64, at time.Time, key K, limit int) (links []shortener.Link, err error) {
	query := `SELECT ` + t.key + `, ` + linkColumns + ` FROM ` + t.name + ` WHERE (created_at, ` + t.key + `) < ($1, $2)`
	values := []any{at, key, limit}
	if owner != 0 {
		query += ` AND details IS NOT NULL AND (details->>'owner')::bigint = $4`
		values = append(values, owner)
	}
	rows, err := pool.Query(ctx, query+` ORDER BY created_at DESC, `+t.key+` DESC LIMIT $3`, values...)
	if err != nil {
		return nil, err
	}
	err = forEachLink(rows, &key, func(link shortener.Link, err error) error {
		links = append(links, link)
		return err
	})
	return links, err
}

// streaming begins a transaction whose result the caller reads slowly. While this program reads nothing, its TCP
// receive window becomes zero. If tcp_user_timeout is set, the server ends a connection whose window is zero for longer
// than this timeout.
const streaming = `BEGIN READ ONLY; SET LOCAL tcp_user_timeout = 0`

// Oldest implements [shortener.Store]. The server sorts the links, and needs temporary disk space if
// there are many links. The caller may pause between two links as long as it wants.
func (s *Store) Oldest(ctx context.Context) iter.Seq2[shortener.Link, error] {
	return func(yield func(shortener.Link, error) bool) {
		reading, cancel := context.WithCancel(ctx)
		defer cancel()
		tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: streaming})
		if err != nil {
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
			return
		}
		defer func() { _ = tx.Rollback(ctx) }() // if it fails, the connection is closed
		rows, err := tx.Query(reading, `SELECT `+linkColumns+` FROM all_links ORDER BY created_at, code`)
		if err != nil {
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
			return
		}
		defer func() {
			cancel() // so that Close does not read the rest of the rows
			rows.Close()
		}()
		var row linkRow
		columns := row.columns()
		for rows.Next() {
			var link shortener.Link
			if err = rows.Scan(columns...); err == nil {
				link, err = row.link()
			}
			if !yield(link, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(shortener.Link{}, fmt.Errorf("read all links: %w", err))
		}
	}
}
