-- +goose Up

-- See the file of the same name for PostgreSQL.
CREATE TABLE visits (
    code  TEXT    NOT NULL,
    hour  INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    human INTEGER NOT NULL,
    bot   INTEGER NOT NULL,
    PRIMARY KEY (code, hour)
) STRICT, WITHOUT ROWID;

CREATE INDEX visits_hour ON visits (hour);
CREATE INDEX visits_owner ON visits (owner, hour) WHERE owner <> 0;

CREATE TABLE visit_facets (
    code  TEXT    NOT NULL,
    facet INTEGER NOT NULL CHECK (facet BETWEEN 1 AND 3),
    day   INTEGER NOT NULL,
    value TEXT    NOT NULL,
    human INTEGER NOT NULL,
    bot   INTEGER NOT NULL,
    PRIMARY KEY (code, facet, day, value)
) STRICT, WITHOUT ROWID;

CREATE INDEX visit_facets_day ON visit_facets (day);

CREATE TABLE visit_writers (
    id       TEXT    NOT NULL PRIMARY KEY,
    sequence INTEGER NOT NULL,
    used_at  INTEGER NOT NULL
) STRICT;
