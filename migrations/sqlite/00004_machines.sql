-- +goose Up

-- See the file of the same name for PostgreSQL.
CREATE TABLE kgs_machines (
    id       INTEGER PRIMARY KEY CHECK (id BETWEEN 0 AND 1023),
    holder   TEXT    NOT NULL DEFAULT '',
    until_ms INTEGER NOT NULL DEFAULT 0
) STRICT;
WITH RECURSIVE ids (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id < 1023)
INSERT INTO kgs_machines (id) SELECT id FROM ids;
