-- +goose Up

-- A worker that opens an epoch waits behind the ALTER TABLE, which waits for the transactions that use the table. If they take
-- longer than this, the statement fails, and package migrations repeats the file.
SET LOCAL lock_timeout = '100ms';

-- The list of the shared pool that an epoch belongs to. Every list has its own epochs. Earlier epochs belong to list 0.
ALTER TABLE kgs_epochs ADD COLUMN list integer NOT NULL DEFAULT 0;
