package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/shortener"
)

// insertKey inserts the idempotency key of a link and returns 0. If the key is already in use, it inserts nothing and returns
// the [shortener.Outcome] that the creation of the link gets.
func (s *Store) insertKey(ctx context.Context, tx *sql.Tx, l *shortener.Link) (shortener.Outcome, error) {
	o := l.IdempotencyKey
	expired := l.CreatedAt.Add(-shortener.IdempotencyKeyLifetime).UnixMicro()
	result, err := tx.ExecContext(ctx, `INSERT INTO idempotency_keys (owner, key, payload, code, created_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (owner, key) DO UPDATE SET payload = excluded.payload, code = excluded.code, created_at = excluded.created_at
		WHERE idempotency_keys.created_at < ?`, o.Owner, o.Key, o.Payload[:], l.Code, l.CreatedAt.UnixMicro(), expired)
	if err != nil {
		return 0, err
	}
	if inserted, err := result.RowsAffected(); err != nil || inserted == 1 {
		return 0, err
	}
	table, key := s.place(l.Code)
	stored, err := scanLink(tx.QueryRowContext(ctx, table.lookup.query, key))
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !errors.Is(err, shortener.ErrDetails) {
		return 0, err
	}
	if err == nil && shortener.Equal(stored, *l) {
		return shortener.Present, nil
	}
	return shortener.Repeated, nil
}

// release removes an idempotency key that insertKey inserted in the same transaction.
func release(ctx context.Context, tx *sql.Tx, o *shortener.IdempotencyKey) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM idempotency_keys WHERE owner = ? AND key = ?`, o.Owner, o.Key)
	return err
}

// FirstCreation implements [shortener.Store].
func (s *Store) FirstCreation(ctx context.Context, owner int64, key string) (first shortener.FirstCreation, err error) {
	var payload []byte
	var created int64
	err = s.db.Read.QueryRowContext(ctx, `SELECT code, payload, created_at FROM idempotency_keys WHERE owner = ? AND key = ?`, owner, key).
		Scan(&first.Code, &payload, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return shortener.FirstCreation{}, shortener.ErrNotFound
	}
	if err != nil {
		return shortener.FirstCreation{}, fmt.Errorf("look up an idempotency key: %w", err)
	}
	copy(first.Payload[:], payload)
	first.CreatedAt = time.UnixMicro(created).UTC()
	return first, nil
}

// ForgetKeys implements [shortener.Store].
func (s *Store) ForgetKeys(ctx context.Context, before time.Time, limit int) (n int, err error) {
	result, err := s.db.Write.ExecContext(ctx, `DELETE FROM idempotency_keys WHERE rowid IN
		(SELECT rowid FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`, before.UnixMicro(), limit)
	if err != nil {
		return 0, fmt.Errorf("forget idempotency keys: %w", err)
	}
	removed, err := result.RowsAffected()
	return int(removed), err
}
