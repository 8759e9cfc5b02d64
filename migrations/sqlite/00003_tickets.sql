-- +goose Up

-- See the file of the same name for PostgreSQL. SQLite has no sequences. For each parity, this table
-- holds the last number that a process got.
CREATE TABLE kgs_tickets (
    parity INTEGER PRIMARY KEY CHECK (parity IN (0, 1)),
    last   INTEGER NOT NULL
) STRICT;
INSERT INTO kgs_tickets (parity, last) VALUES (0, 0), (1, -1);
