-- +goose Up

-- Does nothing, because version 9 creates the indexes. In SQLite, the build of an index always excludes other writers. This file
-- keeps the versions of both engines equal.
SELECT 1;
