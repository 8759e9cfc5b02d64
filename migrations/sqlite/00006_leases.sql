-- +goose Up

-- See the file of the same name for PostgreSQL.
CREATE TABLE kgs_leases (
    id         INTEGER PRIMARY KEY,
    client     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('open', 'returned', 'expired')),
    expires_at INTEGER NOT NULL,
    UNIQUE (client, request_id)
) STRICT;
CREATE INDEX kgs_leases_open ON kgs_leases (expires_at) WHERE state = 'open';
CREATE INDEX kgs_leases_over ON kgs_leases (expires_at) WHERE state <> 'open';

ALTER TABLE kgs_ranges ADD COLUMN lease INTEGER NOT NULL DEFAULT 0;
CREATE INDEX kgs_ranges_lease ON kgs_ranges (lease);
