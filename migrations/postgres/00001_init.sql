-- +goose Up

-- Links. The primary key alone decides whether a code is unique. Rows are never removed.
CREATE TABLE links (
    code       text COLLATE "C" PRIMARY KEY,
    url        text        NOT NULL,
    source     text        NOT NULL, -- 'alias', or the source of the key: 'pool', 'ledger', 'random', ...
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    deleted_at timestamptz
);

-- The key ledger: one row. Each change of the ranges locks this row first, so that range
-- ids are committed in the order in which they were assigned.
CREATE TABLE kgs_ledger (
    id          smallint    PRIMARY KEY CHECK (id = 1),
    secret      bytea,                           -- the FF1 key that Keypool made, null if there is none
    fingerprint text        NOT NULL,            -- of the FF1 key, or 'plain' if numbers are not permuted
    epoch       bigint      NOT NULL DEFAULT 0,
    pool        text        NOT NULL DEFAULT '', -- identity of the Redis process that the epoch was opened on
    last_range  bigint      NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- One counter per code length. The column next is the counter: the first number that was never reserved.
CREATE TABLE kgs_spaces (
    length smallint PRIMARY KEY CHECK (length BETWEEN 3 AND 10),
    size   bigint   NOT NULL,
    next   bigint   NOT NULL DEFAULT 0 CHECK (next BETWEEN 0 AND size)
);
INSERT INTO kgs_spaces (length, size) VALUES
    (3, 238328), (4, 14776336), (5, 916132832), (6, 56800235584),
    (7, 3521614606208), (8, 218340105584896), (9, 13537086546263552), (10, 839299365868340224);

-- The value of each space's counter when an epoch was opened. A number below this value that
-- is recorded nowhere else was lost with the pool of an earlier epoch.
CREATE TABLE kgs_epochs (
    epoch     bigint,
    length    smallint,
    next      bigint      NOT NULL,
    pool      text        NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (epoch, length)
);

-- Ranges of reserved numbers. A range that was delivered to a pool or settled has no row. Some codes of
-- a batch or of an abandoned range may have links. No number is in two ranges. The unique key detects
-- two ranges with the same start.
CREATE TABLE kgs_ranges (
    id     bigint   PRIMARY KEY,
    length smallint NOT NULL,
    lo     bigint   NOT NULL,
    hi     bigint   NOT NULL CHECK (hi > lo), -- exclusive
    state  text     NOT NULL CHECK (state IN ('reserved', 'shipping', 'batch', 'abandoned')),
    holder text     NOT NULL DEFAULT '',      -- the holder of the range, '' for none
    origin bigint   NOT NULL DEFAULT 0,       -- the range from which a batch was cut, 0 for none
    reason text     NOT NULL DEFAULT '',      -- why the range was abandoned
    epoch  bigint   NOT NULL,
    UNIQUE (length, lo)
);
CREATE INDEX kgs_ranges_state ON kgs_ranges (state, id);

-- The registered holders. A holder may have no range. Times are read from the clock of this database.
CREATE TABLE kgs_holders (
    holder  text        PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
