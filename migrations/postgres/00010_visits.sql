-- +goose Up

-- The visits of each link in each hour. Package keypool/shortener/visits describes the tables of this file.
CREATE TABLE visits (
    code  text COLLATE "C" NOT NULL,
    hour  integer NOT NULL, -- hours since 1970; 0 for the visits that belong to no hour, because they are old or were imported
    owner bigint  NOT NULL, -- id of a token, 0 for an anonymous link
    human bigint  NOT NULL,
    bot   bigint  NOT NULL,
    PRIMARY KEY (code, hour)
) WITH (fillfactor = 80); -- so that updated rows of the present hour stay in their page

CREATE INDEX visits_hour ON visits (hour);
CREATE INDEX visits_owner ON visits (owner, hour) WHERE owner <> 0;

-- The visits of each link on each day, by a property of the visit: 1 is the host of the referrer, 2 the country, 3
-- the device. A link has at most 100 values of a property on a day; the value '' counts the visits with all
-- further values.
CREATE TABLE visit_facets (
    code  text COLLATE "C" NOT NULL,
    facet smallint NOT NULL CHECK (facet BETWEEN 1 AND 3),
    day   integer  NOT NULL, -- days since 1970
    value text COLLATE "C" NOT NULL,
    human bigint   NOT NULL,
    bot   bigint   NOT NULL,
    PRIMARY KEY (code, facet, day, value)
) WITH (fillfactor = 80);

CREATE INDEX visit_facets_day ON visit_facets (day);

-- The number of the last part that each writer has stored. A writer is the name under which a server
-- stores its counts of visits. It stores them in parts, which are numbered. A part whose number is
-- stored already has no effect.
CREATE TABLE visit_writers (
    id       text   PRIMARY KEY,
    sequence bigint NOT NULL,
    used_at  bigint NOT NULL -- seconds since 1970
);
