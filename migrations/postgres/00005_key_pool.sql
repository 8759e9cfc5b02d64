-- +goose Up

-- The pool of KEY_SOURCE=postgres-pool: codes that were drawn ahead of time, to be taken in
-- the order of their ids. A key that comes back gets a new id, so an id is given out once.
CREATE TABLE available_keys (
    id          bigint  PRIMARY KEY, -- from key_pool.last_id: an identity's numbers are lost with what is rolled back
    key         text COLLATE "C" NOT NULL UNIQUE,
    is_reserved boolean NOT NULL DEFAULT false,
    reserved_at timestamptz,         -- when it was last reserved, by this database's clock; null for never
    holder      text                 -- the process that has it reserved
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000); -- takers walk over what is dead
CREATE INDEX available_keys_reserved ON available_keys (reserved_at) WHERE is_reserved;

-- The keys that were taken, or under KGS_TAKE=reserve spent: the audit log, and the judge of
-- whether a key was given out before.
CREATE TABLE used_keys (
    id          bigint      NOT NULL, -- it was given out under, or of its batch the last
    used_at     timestamptz NOT NULL DEFAULT now(),
    reserved_at timestamptz,          -- as in available_keys
    key         text COLLATE "C" PRIMARY KEY
);

-- One row. Whoever adds keys to the pool locks it, so that ids have no gaps and become
-- visible in the order they were given; who takes keys does not.
CREATE TABLE key_pool (
    id      smallint PRIMARY KEY CHECK (id = 1),
    last_id bigint   NOT NULL DEFAULT 0,
    history text     NOT NULL DEFAULT '' -- as in kgs_ledger: another one, and the keys may have been given out already
);
INSERT INTO key_pool (id) VALUES (1);
