-- +goose Up

-- Links in the order of the ranks of their codes. The rank is the position of a code among all base62
-- codes of 3 to 10 characters: first the codes of 3 characters in the order of their numbers, then the
-- codes of 4 characters, and so on. Rows that are created together are neighbours, so an insert changes
-- few pages. Docs: docs/decisions/0008-links-by-rank.md.
CREATE TABLE ranked_links (
    rank       bigint      PRIMARY KEY,
    code       text COLLATE "C" NOT NULL,
    url        text        NOT NULL,
    source     text        NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    deleted_at timestamptz
);

-- Links whose codes have no rank: codes of other lengths, and aliases with - or _.
CREATE TABLE unranked_links (
    code       text COLLATE "C" PRIMARY KEY,
    url        text        NOT NULL,
    source     text        NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    deleted_at timestamptz
);

-- All links, for exports and for people. A query with a condition on the code reads the whole table ranked_links.
CREATE VIEW all_links AS
    SELECT code, url, source, created_at, expires_at, deleted_at FROM ranked_links
    UNION ALL SELECT code, url, source, created_at, expires_at, deleted_at FROM unranked_links;

-- One row: the fingerprint of the permutation that determines the ranks, and how far the links of
-- links_earlier have been moved to the tables above.
CREATE TABLE link_order (
    id          smallint PRIMARY KEY CHECK (id = 1),
    fingerprint text     NOT NULL,
    moved_to    text     NOT NULL DEFAULT '', -- position of the last moved row, '' for none
    moved       bigint   NOT NULL DEFAULT 0   -- number of moved rows
);

-- A program that is older than this version creates links in the table links, which newer programs do
-- not read. Therefore the table gets a new name, so that the older program fails.
ALTER TABLE links RENAME TO links_earlier;
