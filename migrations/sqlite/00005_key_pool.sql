-- +goose Up

-- Does nothing, because KEY_SOURCE=postgres-pool needs PostgreSQL. This file keeps the versions
-- of both engines equal.
SELECT 1;
