-- +goose Up

-- Nothing: KEY_SOURCE=postgres-pool is for PostgreSQL. The versions of both engines match.
SELECT 1;
