-- +goose Up

-- ALTER TABLE waits for the transactions that use the table, and a worker that opens an epoch waits behind ALTER TABLE.
-- Therefore the wait has a limit. If the statement reaches this limit, package migrations repeats the file.
SET LOCAL lock_timeout = '100ms';

-- The list of the shared pool that an epoch belongs to. Every list has its own epochs. Earlier epochs belong to list 0.
ALTER TABLE kgs_epochs ADD COLUMN list integer NOT NULL DEFAULT 0;
