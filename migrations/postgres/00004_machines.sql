-- +goose Up

-- The machine ids of KEY_SOURCE=snowflake. The holder of an id promises to make only numbers
-- with times before until_ms. The next holder of the id begins at until_ms or later.
CREATE TABLE kgs_machines (
    id       smallint PRIMARY KEY CHECK (id BETWEEN 0 AND 1023),
    holder   text     NOT NULL DEFAULT '', -- '' if the id was given back or never used
    until_ms bigint   NOT NULL DEFAULT 0   -- milliseconds since 2026-01-01T00:00:00Z
);
INSERT INTO kgs_machines (id) SELECT generate_series(0, 1023);
