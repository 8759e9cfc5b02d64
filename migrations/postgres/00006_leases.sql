-- +goose Up

-- Keys that client programs have by request, for good unless they return them in time. The
-- keys themselves are ranges. A row is kept for a day after its expiry, so that a repeated
-- request never gets new keys. Times are microseconds since 1970, by this database's clock.
CREATE TABLE kgs_leases (
    id         bigint PRIMARY KEY, -- that of its first range
    client     text   COLLATE "C" NOT NULL,
    request_id text   COLLATE "C" NOT NULL,
    state      text   NOT NULL CHECK (state IN ('open', 'returned', 'expired')),
    expires_at bigint NOT NULL,
    UNIQUE (client, request_id)
);
CREATE INDEX kgs_leases_open ON kgs_leases (expires_at) WHERE state = 'open';
CREATE INDEX kgs_leases_over ON kgs_leases (expires_at) WHERE state <> 'open';

-- The lease that a batch is part of, 0 for none: nobody beats for it.
ALTER TABLE kgs_ranges ADD COLUMN lease bigint NOT NULL DEFAULT 0;
CREATE INDEX kgs_ranges_lease ON kgs_ranges (lease);
