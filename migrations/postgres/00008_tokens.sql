-- +goose Up

-- API tokens. Rows are never deleted, because a link refers to the token that owns it. Package
-- keypool/shortener/token describes the columns.
CREATE TABLE tokens (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest       bytea       NOT NULL CHECK (length(digest) = 32), -- SHA-256 of the secret
    name         text        NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    scopes       smallint    NOT NULL CHECK (scopes BETWEEN 1 AND 15), -- the sum of create 1, read 2, edit 4, admin 8
    rate         bigint      NOT NULL CHECK (rate >= 0), -- creations per second, 0 for no limit
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz -- truncated to the hour
);

-- A name can be used again after its token was revoked.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

-- One row. Each transaction that creates, renews or revokes a token replaces the version by another number. A
-- server reads the tokens again only if the version changed.
CREATE TABLE token_changes (
    id      smallint PRIMARY KEY CHECK (id = 1),
    version bigint   NOT NULL
);
INSERT INTO token_changes (id, version) VALUES (1, 0);
