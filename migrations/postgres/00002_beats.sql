-- +goose Up

-- A holder is dead when its beat stands still, which no clock can fake; seen_at is for people.
ALTER TABLE kgs_holders ADD COLUMN beat bigint NOT NULL DEFAULT 0;

-- Names the unbroken history of this database: another one means that it came back from
-- an older state, and that the ledger must jump ahead.
ALTER TABLE kgs_ledger ADD COLUMN history text NOT NULL DEFAULT '';

-- Tells the pools of several ledgers on one Redis apart.
ALTER TABLE kgs_ledger ADD COLUMN name text NOT NULL DEFAULT '';
