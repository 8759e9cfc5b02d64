-- +goose Up

-- The heartbeat of a holder, which a living holder increments. A holder counts as dead when its
-- heartbeat no longer changes. This decision compares no clocks: the column seen_at is only for people
-- to read.
ALTER TABLE kgs_holders ADD COLUMN beat bigint NOT NULL DEFAULT 0;

-- The history of the database at the last change of the ledger: the identifier of the PostgreSQL
-- cluster and its timeline. If the present history differs, the database may have been rolled back, and
-- the ledger skips ahead.
ALTER TABLE kgs_ledger ADD COLUMN history text NOT NULL DEFAULT '';

-- Distinguishes the pools of several ledgers on one Redis.
ALTER TABLE kgs_ledger ADD COLUMN name text NOT NULL DEFAULT '';
