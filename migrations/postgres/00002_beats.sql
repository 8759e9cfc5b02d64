-- +goose Up

-- The heartbeat of a holder, which a living holder increments. A holder is dead when its heartbeat
-- stops changing, whatever the clocks show. seen_at is only for people to read.
ALTER TABLE kgs_holders ADD COLUMN beat bigint NOT NULL DEFAULT 0;

-- The name of the database's history at the last change of the ledger: the cluster and its timeline.
-- If the present name differs, the database may have been rolled back, and the ledger skips ahead.
ALTER TABLE kgs_ledger ADD COLUMN history text NOT NULL DEFAULT '';

-- Distinguishes the pools of several ledgers on one Redis.
ALTER TABLE kgs_ledger ADD COLUMN name text NOT NULL DEFAULT '';
