-- +goose Up

-- See the file of the same name for PostgreSQL. The history of an SQLite file has no name, so the column
-- history is empty after each change of the ledger.
ALTER TABLE kgs_holders ADD COLUMN beat INTEGER NOT NULL DEFAULT 0;
ALTER TABLE kgs_ledger ADD COLUMN history TEXT NOT NULL DEFAULT '';

-- Distinguishes the pools of several ledgers on one Redis.
ALTER TABLE kgs_ledger ADD COLUMN name TEXT NOT NULL DEFAULT '';
