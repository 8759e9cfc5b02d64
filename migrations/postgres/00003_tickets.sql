-- +goose Up

-- The tickets of KEY_SOURCE=ticket. If there are two databases, one issues the odd numbers and the
-- other issues the even numbers. Each database has both sequences, because a single database issues the
-- odd numbers and the even numbers.
CREATE SEQUENCE kgs_tickets_odd  AS bigint START 1 INCREMENT 2;
CREATE SEQUENCE kgs_tickets_even AS bigint START 2 INCREMENT 2;
