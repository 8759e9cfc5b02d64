-- +goose Up

-- Links. The primary key is the only judge of uniqueness; rows are never removed.
CREATE TABLE links (
    code       text COLLATE "C" PRIMARY KEY,
    url        text        NOT NULL,
    source     text        NOT NULL, -- 'alias', or the supply of the key: 'pool', 'ledger', 'random', ...
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    deleted_at timestamptz
);

-- The key ledger: one row. Whatever changes the ranges locks it first, so that range
-- ids are committed in the order they were given.
CREATE TABLE kgs_ledger (
    id          smallint    PRIMARY KEY CHECK (id = 1),
    secret      bytea,                           -- the FF1 key where Keypool made it, null where the operator supplies it
    fingerprint text        NOT NULL,            -- of the FF1 key, or 'plain' where numbers are not permuted
    epoch       bigint      NOT NULL DEFAULT 0,
    pool        text        NOT NULL DEFAULT '', -- identity of the Redis process that the epoch was opened on
    last_range  bigint      NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- One counter a code length. The counter is the first number that was never reserved.
CREATE TABLE kgs_spaces (
    length smallint PRIMARY KEY CHECK (length BETWEEN 3 AND 10),
    size   bigint   NOT NULL,
    next   bigint   NOT NULL DEFAULT 0 CHECK (next BETWEEN 0 AND size)
);
INSERT INTO kgs_spaces (length, size) VALUES
    (3, 238328), (4, 14776336), (5, 916132832), (6, 56800235584),
    (7, 3521614606208), (8, 218340105584896), (9, 13537086546263552), (10, 839299365868340224);

-- What each space's counter stood at when an epoch was opened: numbers below it that are
-- found nowhere else were lost with the pool of an earlier epoch.
CREATE TABLE kgs_epochs (
    epoch     bigint,
    length    smallint,
    next      bigint      NOT NULL,
    pool      text        NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (epoch, length)
);

-- Runs of numbers that were reserved and are not (all) linked yet, or never will be.
-- No number is in two of them, which the unique key helps to keep true.
CREATE TABLE kgs_ranges (
    id     bigint   PRIMARY KEY,
    length smallint NOT NULL,
    lo     bigint   NOT NULL,
    hi     bigint   NOT NULL CHECK (hi > lo), -- exclusive
    state  text     NOT NULL CHECK (state IN ('reserved', 'shipping', 'batch', 'abandoned')),
    holder text     NOT NULL DEFAULT '',      -- the process that works on it, '' for nobody
    origin bigint   NOT NULL DEFAULT 0,       -- the range that a batch was cut from, 0 for none
    reason text     NOT NULL DEFAULT '',      -- why it was abandoned
    epoch  bigint   NOT NULL,
    UNIQUE (length, lo)
);
CREATE INDEX kgs_ranges_state ON kgs_ranges (state, id);

-- Processes that hold ranges, by this database's clock.
CREATE TABLE kgs_holders (
    holder  text        PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
