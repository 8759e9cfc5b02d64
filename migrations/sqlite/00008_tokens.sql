-- +goose Up

-- See the file of the same name for PostgreSQL. AUTOINCREMENT prevents SQLite from using the id of a
-- deleted row again.
CREATE TABLE tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    name         TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    scopes       INTEGER NOT NULL CHECK (scopes BETWEEN 1 AND 15),
    rate         INTEGER NOT NULL CHECK (rate >= 0),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;

CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

CREATE TABLE token_changes (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO token_changes (id, version) VALUES (1, 0);
