-- +goose Up

-- See the file of the same name for PostgreSQL.
CREATE TABLE ranked_links (
    rank       INTEGER PRIMARY KEY,
    code       TEXT    NOT NULL,
    url        TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    deleted_at INTEGER
) STRICT;

CREATE TABLE unranked_links (
    code       TEXT    NOT NULL PRIMARY KEY,
    url        TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    deleted_at INTEGER
) STRICT;

CREATE VIEW all_links AS
    SELECT code, url, source, created_at, expires_at, deleted_at FROM ranked_links
    UNION ALL SELECT code, url, source, created_at, expires_at, deleted_at FROM unranked_links;

CREATE TABLE link_order (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    fingerprint TEXT    NOT NULL,
    moved_to    TEXT    NOT NULL DEFAULT '',
    moved       INTEGER NOT NULL DEFAULT 0
) STRICT;

ALTER TABLE links RENAME TO links_earlier;
