-- +goose Up

-- See the file of the same name for PostgreSQL.
ALTER TABLE kgs_holders ADD COLUMN beat INTEGER NOT NULL DEFAULT 0;
ALTER TABLE kgs_ledger ADD COLUMN history TEXT NOT NULL DEFAULT '';

-- Distinguishes the pools of several ledgers on one Redis.
ALTER TABLE kgs_ledger ADD COLUMN name TEXT NOT NULL DEFAULT '';
