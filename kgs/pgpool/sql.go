package pgpool

import (
	"keypool/kgs/ledger"
)

// The statements of a Pool. Rows are found again by ctid, which does not change
// while they are locked: there is no plan for that but to go where it points, whatever
// the planner believes of the size of the tables.
const (
	// freeKeys locks the first $2 rows from $1 on that nobody else has locked. None are
	// found in a pool that was filled before the database came back from an older state.
	freeKeys = `free AS MATERIALIZED (
		SELECT ctid AS place, id, key FROM available_keys
		WHERE id >= $1 AND NOT is_reserved AND (SELECT history = ` + ledger.PostgresHistory + ` FROM key_pool)
		ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)`

	takeByDelete = `WITH ` + freeKeys + `, taken AS (
			DELETE FROM available_keys WHERE ctid = ANY (ARRAY(SELECT place FROM free)) RETURNING id, key, reserved_at),
		used AS (
			INSERT INTO used_keys (id, key, reserved_at) SELECT id, key, reserved_at FROM taken
			ON CONFLICT DO NOTHING RETURNING id, key)
		SELECT id, coalesce(used.key, '') FROM taken LEFT JOIN used USING (id) ORDER BY id`

	// takeByReserve reserves for $3. A key that was used before it was drawn again was
	// used by the time that its row became visible, so none can be missed.
	takeByReserve = `WITH ` + freeKeys + `, checked AS MATERIALIZED (
			SELECT place, id, (SELECT true FROM used_keys WHERE used_keys.key = free.key) AS used FROM free),
		dropped AS (
			DELETE FROM available_keys WHERE ctid = ANY (ARRAY(SELECT place FROM checked WHERE used))),
		taken AS (
			UPDATE available_keys SET is_reserved = true, reserved_at = now(), holder = $3
			WHERE ctid = ANY (ARRAY(SELECT place FROM checked WHERE used IS NULL)) RETURNING id, key)
		SELECT id, coalesce(taken.key, '') FROM checked LEFT JOIN taken USING (id) ORDER BY id`

	// useReserved settles keys $1 of a batch whose last id is $2. Those that came back in
	// the meantime are dropped when they are taken; who has taken them will find them linked.
	useReserved = `WITH gone AS (
			DELETE FROM available_keys WHERE key = ANY ($1::text[]) AND id <= $2)
		INSERT INTO used_keys (id, key) SELECT $2, unnest($1::text[]) ON CONFLICT DO NOTHING`

	// lockPool is what adds keys begins with, before it changes anything that another one who
	// adds some might wait for.
	lockPool = `WITH pool AS MATERIALIZED (SELECT last_id FROM key_pool FOR UPDATE), `
	locked   = `(SELECT last_id FROM pool) >= 0`

	// putBack makes the keys in gone available under new ids, in the order of the old ones.
	putBack = `, moved AS (UPDATE key_pool SET last_id = last_id + (SELECT count(*) FROM gone))
		INSERT INTO available_keys (id, key, reserved_at)
		SELECT (SELECT last_id FROM pool) + row_number() OVER (ORDER BY id), key, reserved_at FROM gone
		ON CONFLICT DO NOTHING`

	// handBackUsed and handBackReserved return keys $1 of a batch whose last id is $2.
	handBackUsed = lockPool + `gone AS (
			DELETE FROM used_keys WHERE key = ANY ($1::text[]) AND id <= $2 AND ` + locked + `
			RETURNING id, key, reserved_at)` + putBack
	handBackReserved = lockPool + `gone AS (
			DELETE FROM available_keys WHERE key = ANY ($1::text[]) AND id <= $2 AND is_reserved AND ` + locked + `
			RETURNING id, key, reserved_at)` + putBack

	// handBackLapsed returns up to $2 keys that were reserved longer than $1 ago by
	// holders that are dead by now.
	handBackLapsed = lockPool + `gone AS (
			DELETE FROM available_keys WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM available_keys
				WHERE is_reserved AND reserved_at < now() - $1::interval AND holder NOT IN (SELECT holder FROM kgs_holders)
				ORDER BY reserved_at LIMIT $2 FOR UPDATE SKIP LOCKED)) AND ` + locked + `
			RETURNING id, key, reserved_at)` + putBack

	// putDrawn makes $1 available, but for those that are already or were used: only fresh
	// ones get ids, by which the pool is measured. What another one adds or takes at the same
	// moment is not seen, and is left to the unique constraints, here and when a key is taken.
	// Their order is chance's.
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

	// poolStatus is the id that was given last, whether the pool is of this database's
	// history, and the first row from $1 on that is free, and the last of all.
	poolStatus = `SELECT last_id, history = ` + ledger.PostgresHistory + `,
			(SELECT id FROM available_keys WHERE id >= $1 AND NOT is_reserved ORDER BY id LIMIT 1),
			(SELECT max(id) FROM available_keys)
		FROM key_pool`

	// openPool empties a pool of another history than the database's. The table is locked
	// first: whoever waits for it has not locked anything yet that this would wait for.
	openPool = `DO $$ BEGIN
			LOCK TABLE available_keys;
			UPDATE key_pool SET history = ` + ledger.PostgresHistory + ` WHERE history <> ` + ledger.PostgresHistory + `;
			IF FOUND THEN TRUNCATE available_keys; END IF;
		END $$`
)
