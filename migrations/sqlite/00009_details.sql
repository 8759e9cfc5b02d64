-- +goose Up

-- See the file of the same name for PostgreSQL.
ALTER TABLE ranked_links ADD COLUMN details TEXT;
ALTER TABLE unranked_links ADD COLUMN details TEXT;

CREATE INDEX ranked_links_created ON ranked_links (created_at); -- the index also has the rank, because it is the rowid
CREATE INDEX unranked_links_created ON unranked_links (created_at, code);

CREATE INDEX ranked_links_owner ON ranked_links (json_extract(details, '$.owner'), created_at)
    WHERE json_extract(details, '$.owner') IS NOT NULL;
CREATE INDEX unranked_links_owner ON unranked_links (json_extract(details, '$.owner'), created_at, code)
    WHERE json_extract(details, '$.owner') IS NOT NULL;

DROP VIEW all_links;
CREATE VIEW all_links AS
    SELECT code, url, source, created_at, expires_at, deleted_at, details FROM ranked_links
    UNION ALL SELECT code, url, source, created_at, expires_at, deleted_at, details FROM unranked_links;
