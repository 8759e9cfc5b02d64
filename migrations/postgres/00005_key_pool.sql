-- +goose Up

-- The pool of KEY_SOURCE=postgres-pool: codes that were prepared in advance. Servers take the keys in
-- the order of their ids. A returned key gets a new id, so each id is issued once.
CREATE TABLE available_keys (
    id          bigint  PRIMARY KEY, -- from key_pool.last_id, because an identity column would skip the ids of rolled-back transactions
    key         text COLLATE "C" NOT NULL UNIQUE,
    is_reserved boolean NOT NULL DEFAULT false,
    reserved_at timestamptz,         -- when the key was last reserved, by this database's clock, or null for never
    holder      text                 -- the process that reserved the key
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000); -- because each take scans the dead rows
CREATE INDEX available_keys_reserved ON available_keys (reserved_at) WHERE is_reserved;

-- The keys that servers took. With KGS_TAKE=reserve, the keys that servers used. This table is an audit
-- log. It also shows whether a key was issued before.
CREATE TABLE used_keys (
    id          bigint      NOT NULL, -- the id under which the key was issued, or the last id of its batch
    used_at     timestamptz NOT NULL DEFAULT now(),
    reserved_at timestamptz,          -- as in available_keys
    key         text COLLATE "C" PRIMARY KEY
);

-- One row. A transaction that adds keys to the pool locks this row. So a transaction that is rolled back
-- leaves no gap in the ids, and ids become visible in the order in which they were assigned. A
-- transaction that takes keys does not lock this row.
CREATE TABLE key_pool (
    id      smallint PRIMARY KEY CHECK (id = 1),
    last_id bigint   NOT NULL DEFAULT 0,
    -- The history of the database (see kgs_ledger) when the pool was filled. If the present history differs, the
    -- keys of the pool may have been issued already.
    history text     NOT NULL DEFAULT ''
);
INSERT INTO key_pool (id) VALUES (1);
