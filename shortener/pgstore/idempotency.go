package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"keypool/shortener"
)

// hasKey reports whether the creation of any of the links has an idempotency key.
func hasKey(links []shortener.Link) bool {
	for i := range links { // the index avoids a copy of each link
		if links[i].IdempotencyKey != nil {
			return true
		}
	}
	return false
}

// insertWithKeys inserts links, some of which have an idempotency key. If no key and no code is in use, it needs two
// round trips between BEGIN and COMMIT. Otherwise it needs further round trips.
func (s *Store) insertWithKeys(ctx context.Context, tx pgx.Tx, links []shortener.Link) ([]shortener.Outcome, error) {
	taken, busy, err := takeKeys(ctx, tx, links)
	if err != nil {
		return nil, err
	}
	outcomes := make([]shortener.Outcome, len(links))
	var fresh, held []int // positions in links
	for i := range links {
		switch o := links[i].IdempotencyKey; {
		case o == nil || taken[keyOf(o)] == &links[i]:
			fresh = append(fresh, i)
		case busy[keyOf(o)]:
			outcomes[i] = shortener.Busy
		default:
			held = append(held, i)
		}
	}
	if err := s.insertFresh(ctx, tx, links, fresh, outcomes); err != nil {
		return nil, err
	}
	return outcomes, s.checkHeld(ctx, tx, links, held, outcomes)
}

// ownerKey identifies an idempotency key.
type ownerKey struct {
	owner int64
	key   string
}

func keyOf(o *shortener.IdempotencyKey) ownerKey { return ownerKey{o.Owner, o.Key} }

// takeKeys inserts the idempotency keys of links. The map taken contains the link of each inserted key. The map busy
// contains the keys whose insert waited too long for another transaction, which usually has inserted the same key and
// not committed. takeKeys inserts the keys in sorted order, because two transactions that used different orders could
// deadlock.
func takeKeys(ctx context.Context, tx pgx.Tx, links []shortener.Link) (taken map[ownerKey]*shortener.Link, busy map[ownerKey]bool, err error) {
	first := make(map[ownerKey]*shortener.Link)
	for i := range links {
		if o := links[i].IdempotencyKey; o != nil {
			if _, twice := first[keyOf(o)]; !twice {
				first[keyOf(o)] = &links[i]
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(first), func(a, b ownerKey) int { return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.key, b.key)) })
	taken, err = insertKeys(ctx, tx, first, keys, lockTimeout)
	if !isLockTimeout(err) {
		return taken, nil, err
	}
	taken, busy = make(map[ownerKey]*shortener.Link), make(map[ownerKey]bool)
	for i := range keys { // the error does not name the key that is busy
		one, err := insertKeys(ctx, tx, first, keys[i:i+1], shortTimeout)
		switch {
		case isLockTimeout(err):
			busy[keys[i]] = true
		case err != nil:
			return nil, nil, err
		}
		maps.Copy(taken, one)
	}
	return taken, busy, nil
}

// insertKeys inserts the idempotency keys that are not in use, and returns their links. If isLockTimeout is true for the
// error, insertKeys has inserted no key, and the transaction can continue.
func insertKeys(ctx context.Context, tx pgx.Tx, first map[ownerKey]*shortener.Link, keys []ownerKey, timeout string) (taken map[ownerKey]*shortener.Link, err error) {
	owners, names, codes := make([]int64, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	payloads, times := make([][]byte, len(keys)), make([]time.Time, len(keys))
	for j, k := range keys {
		l := first[k]
		owners[j], names[j], codes[j], payloads[j], times[j] = k.owner, k.key, l.Code, l.IdempotencyKey.Payload[:], l.CreatedAt
	}
	var batch pgx.Batch
	batch.Queue(`SAVEPOINT keys`)
	batch.Queue(timeout)
	// In the condition of DO UPDATE, Citus accepts only constants and immutable functions. So the condition contains no
	// parameter. It also does not subtract an interval from a timestamptz, because this operation is not immutable.
	batch.Queue(fmt.Sprintf(`INSERT INTO idempotency_keys (owner, key, payload, code, created_at)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::text[], $5::timestamptz[])
		ON CONFLICT (owner, key) DO UPDATE SET payload = excluded.payload, code = excluded.code, created_at = excluded.created_at
		WHERE excluded.created_at - idempotency_keys.created_at > interval '%d seconds'
		RETURNING owner, key`, int(shortener.IdempotencyKeyLifetime.Seconds())), owners, names, payloads, codes, times).Query(func(rows pgx.Rows) error {
		taken = make(map[ownerKey]*shortener.Link)
		var k ownerKey
		_, err := pgx.ForEachRow(rows, []any{&k.owner, &k.key}, func() error { taken[k] = first[k]; return nil })
		return err
	})
	batch.Queue(defaultTimeout)
	err = tx.SendBatch(ctx, &batch).Close()
	if isLockTimeout(err) {
		if _, failed := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT keys`); failed != nil {
			return nil, failed
		}
	}
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// insertFresh inserts the links at the given positions. If the code of a link is in use or busy, insertFresh removes the
// idempotency key of the link again. If a link has an idempotency key and the store has an equal link, the outcome is
// Conflict: the key is new, so the stored link belongs to another creation.
func (s *Store) insertFresh(ctx context.Context, tx pgx.Tx, links []shortener.Link, positions []int, outcomes []shortener.Outcome) error {
	fresh := make([]shortener.Link, len(positions))
	for j, i := range positions {
		fresh[j] = links[i]
	}
	results, err := s.insertUnblocked(ctx, tx, fresh, lockTimeout)
	if err != nil {
		return err
	}
	var batch pgx.Batch
	for j, i := range positions {
		outcomes[i] = results[j]
		o := links[i].IdempotencyKey
		if o != nil && outcomes[i] == shortener.Present {
			outcomes[i] = shortener.Conflict
		}
		if o != nil && outcomes[i] != shortener.Inserted {
			batch.Queue(`DELETE FROM idempotency_keys WHERE owner = $1 AND key = $2`, o.Owner, o.Key)
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// checkHeld sets the outcomes of the links at the given positions, whose idempotency keys are in use. If the store has
// the same link, the outcome is Present. Otherwise the key belongs to another creation, and the outcome is Repeated.
func (s *Store) checkHeld(ctx context.Context, tx pgx.Tx, links []shortener.Link, positions []int, outcomes []shortener.Outcome) error {
	codes := make([]string, len(positions))
	for j, i := range positions {
		codes[j] = links[i].Code
	}
	stored, err := s.rows(ctx, tx, codes)
	if err != nil {
		return err
	}
	for _, i := range positions {
		row := stored[links[i].Code]
		outcomes[i] = shortener.Repeated
		if row.err == nil && shortener.Equal(row.link, links[i]) {
			outcomes[i] = shortener.Present
		}
	}
	return nil
}

// FirstCreation implements [shortener.Store].
func (s *Store) FirstCreation(ctx context.Context, owner int64, key string) (first shortener.FirstCreation, err error) {
	var payload []byte
	err = s.pool.QueryRow(ctx, `SELECT code, payload, created_at FROM idempotency_keys WHERE owner = $1 AND key = $2`, owner, key).
		Scan(&first.Code, &payload, &first.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return shortener.FirstCreation{}, shortener.ErrNotFound
	}
	if err == nil {
		err = confirm(ctx, s.pool)
	}
	if err != nil {
		return shortener.FirstCreation{}, fmt.Errorf("look up an idempotency key: %w", err)
	}
	copy(first.Payload[:], payload)
	first.CreatedAt = first.CreatedAt.UTC()
	return first, nil
}

// ForgetKeys implements [shortener.Store]. The DELETE selects old keys, and then checks the age of each key a second
// time. Between the two steps, the DELETE may wait for an Insert that uses one of the keys for a new creation. The second
// check keeps this key.
func (s *Store) ForgetKeys(ctx context.Context, before time.Time, limit int) (n int, err error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM idempotency_keys WHERE created_at < $1 AND (owner, key) IN
		(SELECT owner, key FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("forget idempotency keys: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
