-- +goose NO TRANSACTION
-- +goose Up

-- Indexes of the tables of links. Look-ups and creations of running servers continue during the build. A database to which an
-- earlier program applied version 9 has these indexes already. Package migrations removes an index whose build was interrupted,
-- and repeats this file.

-- Links are listed by the time of their creation. New entries are at the end of these indexes.
CREATE INDEX CONCURRENTLY IF NOT EXISTS ranked_links_created ON ranked_links (created_at, rank);
CREATE INDEX CONCURRENTLY IF NOT EXISTS unranked_links_created ON unranked_links (created_at, code);

-- The links of one owner.
CREATE INDEX CONCURRENTLY IF NOT EXISTS ranked_links_owner ON ranked_links (((details->>'owner')::bigint), created_at, rank)
    WHERE details IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS unranked_links_owner ON unranked_links (((details->>'owner')::bigint), created_at, code)
    WHERE details IS NOT NULL;
