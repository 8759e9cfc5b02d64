-- +goose Up

-- ALTER TABLE waits for the transactions that use the table, and look-ups of running servers wait behind ALTER TABLE.
-- Therefore the wait has a limit. If the statement reaches this limit, package migrations repeats the file.
SET LOCAL lock_timeout = '100ms';

-- The details of a link: owner, title, tags, version and so on. The value is NULL if the link has no
-- owner, was never changed and got no details from an import. The members are the fields of the type
-- Details in package shortener. All members are in one column, because a ninth column would add 8 bytes
-- to each row.
ALTER TABLE ranked_links ADD COLUMN details jsonb;
ALTER TABLE unranked_links ADD COLUMN details jsonb;

CREATE OR REPLACE VIEW all_links AS
    SELECT code, url, source, created_at, expires_at, deleted_at, details FROM ranked_links
    UNION ALL SELECT code, url, source, created_at, expires_at, deleted_at, details FROM unranked_links;

-- The idempotency keys of creations, with the code of the link that the first creation made. The payload is a digest of
-- the request.
CREATE TABLE idempotency_keys (
    owner      bigint NOT NULL,
    key        text COLLATE "C" NOT NULL,
    payload    bytea NOT NULL,
    code       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (owner, key)
);

CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
