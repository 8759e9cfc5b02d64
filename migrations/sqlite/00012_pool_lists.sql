-- +goose Up

-- See the file of the same name for PostgreSQL.
ALTER TABLE kgs_epochs ADD COLUMN list INTEGER NOT NULL DEFAULT 0;
