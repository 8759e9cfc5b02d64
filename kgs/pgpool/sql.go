package pgpool

import (
	"keypool/kgs/ledger"
)

// The constants are the SQL statements of a Pool. Several statements first lock rows and then find them
// again by their ctid. The ctid of a row is its place in the table. It does not change while the row is
// locked. A search by ctid reads the row directly, whatever plan PostgreSQL would choose for a search by
// key.
const (
	// transactions is the id of the next transaction. It grows with each transaction that writes. If older files
	// replace the files of the database, the id decreases. The id also decreases if PostgreSQL crashes before its last
	// transactions are durable. A crash loses only aborted transactions and transactions with synchronous_commit=off.
	// If it loses only aborted transactions, the pool is emptied without need.
	transactions = `CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)`

	// freeKeys locks the first $2 free rows whose id is at least $1. It skips rows that other statements have locked.
	// If the database returned to an older state after the pool was filled, freeKeys finds no row. The argument $3 is
	// the id of the next transaction when Status last read it.
	freeKeys = `free AS MATERIALIZED (
		SELECT ctid AS place, id, key FROM available_keys
		WHERE id >= $1 AND NOT is_reserved AND (SELECT history = ` + ledger.PostgresHistory + ` FROM key_pool) AND ` + transactions + ` >= $3
		ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)`

	takeByDelete = `WITH ` + freeKeys + `, taken AS (
			DELETE FROM available_keys WHERE ctid = ANY (ARRAY(SELECT place FROM free)) RETURNING id, key, reserved_at),
		used AS (
			INSERT INTO used_keys (id, key, reserved_at) SELECT id, key, reserved_at FROM taken
			ON CONFLICT DO NOTHING RETURNING id, key)
		SELECT id, coalesce(used.key, '') FROM taken LEFT JOIN used USING (id) ORDER BY id`

	// takeByReserve reserves keys for holder $4 and drops keys that are in used_keys. It misses no
	// used key: a key that is drawn a second time is in used_keys before it is in available_keys
	// again.
	takeByReserve = `WITH ` + freeKeys + `, checked AS MATERIALIZED (
			SELECT place, id, (SELECT true FROM used_keys WHERE used_keys.key = free.key) AS used FROM free),
		dropped AS (
			DELETE FROM available_keys WHERE ctid = ANY (ARRAY(SELECT place FROM checked WHERE used))),
		taken AS (
			UPDATE available_keys SET is_reserved = true, reserved_at = now(), holder = $4
			WHERE ctid = ANY (ARRAY(SELECT place FROM checked WHERE used IS NULL)) RETURNING id, key)
		SELECT id, coalesce(taken.key, '') FROM checked LEFT JOIN taken USING (id) ORDER BY id`

	// useReserved settles keys $1 as used; $2 is the last id of their batch. A key may have become
	// available again in the meantime. Take drops such a key. If another holder has already taken
	// the key, the insert of the other holder's link fails with a conflict.
	useReserved = `WITH gone AS (
			DELETE FROM available_keys WHERE key = ANY ($1::text[]) AND id <= $2)
		INSERT INTO used_keys (id, key) SELECT $2, unnest($1::text[]) ON CONFLICT DO NOTHING`

	// lockPool begins each statement that returns keys. It locks the row of key_pool, so that these
	// statements run one after the other and cannot deadlock. locked is a condition that makes the
	// rest of the statement wait for this lock.
	lockPool = `WITH pool AS MATERIALIZED (SELECT last_id FROM key_pool FOR UPDATE), `
	locked   = `(SELECT last_id FROM pool) >= 0`

	// putBack makes the keys in gone available under new ids, in the order of the old ids.
	putBack = `, moved AS (UPDATE key_pool SET last_id = last_id + (SELECT count(*) FROM gone))
		INSERT INTO available_keys (id, key, reserved_at)
		SELECT (SELECT last_id FROM pool) + row_number() OVER (ORDER BY id), key, reserved_at FROM gone
		ON CONFLICT DO NOTHING`

	// handBackUsed and handBackReserved return keys $1 to the pool; $2 is the last id of
	// their batch.
	handBackUsed = lockPool + `gone AS (
			DELETE FROM used_keys WHERE key = ANY ($1::text[]) AND id <= $2 AND ` + locked + `
			RETURNING id, key, reserved_at)` + putBack
	handBackReserved = lockPool + `gone AS (
			DELETE FROM available_keys WHERE key = ANY ($1::text[]) AND id <= $2 AND is_reserved AND ` + locked + `
			RETURNING id, key, reserved_at)` + putBack

	// handBackLapsed returns up to $2 reserved keys of dead holders to the pool. It returns
	// only keys that were reserved longer than $1 ago.
	handBackLapsed = lockPool + `gone AS (
			DELETE FROM available_keys WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM available_keys
				WHERE is_reserved AND reserved_at < now() - $1::interval AND holder NOT IN (SELECT holder FROM kgs_holders)
				ORDER BY reserved_at LIMIT $2 FOR UPDATE SKIP LOCKED)) AND ` + locked + `
			RETURNING id, key, reserved_at)` + putBack

	// putDrawn makes codes $1 available, in the order in which they were drawn. It leaves out codes
	// that are available or used already. Only new codes get ids, because Status measures the pool
	// by its ids. putDrawn does not see the changes of a statement that runs at the same moment. If
	// that statement adds or takes one of the codes, the unique constraints detect the code later,
	// in putDrawn or in Take.
	putDrawn = `WITH fresh AS MATERIALIZED (
			SELECT key, row_number() OVER (ORDER BY n) AS n
			FROM (SELECT key, min(n) AS n FROM unnest($1::text[]) WITH ORDINALITY AS all_drawn (key, n) GROUP BY key) AS drawn
			WHERE NOT EXISTS (SELECT FROM available_keys a WHERE a.key = drawn.key)
				AND NOT EXISTS (SELECT FROM used_keys u WHERE u.key = drawn.key)),
		pool AS (
			UPDATE key_pool SET last_id = last_id + (SELECT count(*) FROM fresh)
			RETURNING last_id - (SELECT count(*) FROM fresh) AS before)
		INSERT INTO available_keys (id, key)
		SELECT (SELECT before FROM pool) + n, key FROM fresh
		ON CONFLICT DO NOTHING`

	// poolStatus returns five values: the last id that was assigned, whether the pool belongs
	// to the current history of the database, the id of the next transaction, the id of the first
	// free row from $1 on, and the id of the last row.
	poolStatus = `SELECT last_id, history = ` + ledger.PostgresHistory + `, ` + transactions + `,
			(SELECT id FROM available_keys WHERE id >= $1 AND NOT is_reserved ORDER BY id LIMIT 1),
			(SELECT max(id) FROM available_keys)
		FROM key_pool`

	// closePool makes every Take fail until a worker opens the pool.
	closePool = `UPDATE key_pool SET history = '' WHERE history = ` + ledger.PostgresHistory

	// openPool empties a pool that was filled in another history of the database. It records as used each key that was
	// ever reserved, because a holder may have created a link with the key. This includes keys that are available
	// again, because their holder returned them or died. openPool locks the table first. A statement that waits for
	// this lock holds no lock that openPool needs, so the statement and openPool cannot deadlock.
	openPool = `DO $$ BEGIN
			LOCK TABLE available_keys;
			UPDATE key_pool SET history = ` + ledger.PostgresHistory + ` WHERE history <> ` + ledger.PostgresHistory + `;
			IF FOUND THEN
				INSERT INTO used_keys (id, key, reserved_at) SELECT id, key, reserved_at FROM available_keys WHERE reserved_at IS NOT NULL
				ON CONFLICT DO NOTHING;
				TRUNCATE available_keys;
			END IF;
		END $$`
)
