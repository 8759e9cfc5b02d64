-- +goose Up

-- The leases of client programs. A client keeps the keys of its lease permanently unless it returns
-- them before the expiry. The keys of a lease are recorded as ranges in kgs_ranges. A row is kept for a
-- day after its expiry, so that a repeated request does not get new keys. Times are microseconds since
-- 1970, by this database's clock.
CREATE TABLE kgs_leases (
    id         bigint PRIMARY KEY, -- the id of the lease's first range
    client     text   COLLATE "C" NOT NULL,
    request_id text   COLLATE "C" NOT NULL,
    state      text   NOT NULL CHECK (state IN ('open', 'returned', 'expired')),
    expires_at bigint NOT NULL,
    UNIQUE (client, request_id)
);
CREATE INDEX kgs_leases_open ON kgs_leases (expires_at) WHERE state = 'open';
CREATE INDEX kgs_leases_over ON kgs_leases (expires_at) WHERE state <> 'open';

-- The lease that a batch belongs to, or 0 for none. No process sends heartbeats for a lease.
ALTER TABLE kgs_ranges ADD COLUMN lease bigint NOT NULL DEFAULT 0;
CREATE INDEX kgs_ranges_lease ON kgs_ranges (lease);
