-- +goose Up

-- The same tables as for PostgreSQL. The PostgreSQL file explains them. Times are microseconds
-- since 1970.

CREATE TABLE links (
    code       TEXT    NOT NULL PRIMARY KEY,
    url        TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    deleted_at INTEGER
) STRICT;

CREATE TABLE kgs_ledger (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    secret      BLOB,
    fingerprint TEXT    NOT NULL,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pool        TEXT    NOT NULL DEFAULT '',
    last_range  INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
) STRICT;

CREATE TABLE kgs_spaces (
    length INTEGER PRIMARY KEY CHECK (length BETWEEN 3 AND 10),
    size   INTEGER NOT NULL,
    next   INTEGER NOT NULL DEFAULT 0 CHECK (next BETWEEN 0 AND size)
) STRICT;
INSERT INTO kgs_spaces (length, size) VALUES
    (3, 238328), (4, 14776336), (5, 916132832), (6, 56800235584),
    (7, 3521614606208), (8, 218340105584896), (9, 13537086546263552), (10, 839299365868340224);

CREATE TABLE kgs_epochs (
    epoch     INTEGER NOT NULL,
    length    INTEGER NOT NULL,
    next      INTEGER NOT NULL,
    pool      TEXT    NOT NULL,
    opened_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (epoch, length)
) STRICT, WITHOUT ROWID;

CREATE TABLE kgs_ranges (
    id     INTEGER PRIMARY KEY,
    length INTEGER NOT NULL,
    lo     INTEGER NOT NULL,
    hi     INTEGER NOT NULL CHECK (hi > lo),
    state  TEXT    NOT NULL CHECK (state IN ('reserved', 'shipping', 'batch', 'abandoned')),
    holder TEXT    NOT NULL DEFAULT '',
    origin INTEGER NOT NULL DEFAULT 0,
    reason TEXT    NOT NULL DEFAULT '',
    epoch  INTEGER NOT NULL,
    UNIQUE (length, lo)
) STRICT;
CREATE INDEX kgs_ranges_state ON kgs_ranges (state, id);

CREATE TABLE kgs_holders (
    holder  TEXT    NOT NULL PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
