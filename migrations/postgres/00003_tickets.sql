-- +goose Up

-- The tickets of KEY_SOURCE=ticket. Of two databases one gives the odd numbers and the
-- other the even ones; each has both sequences, so that one can stand in for both.
CREATE SEQUENCE kgs_tickets_odd  AS bigint START 1 INCREMENT 2;
CREATE SEQUENCE kgs_tickets_even AS bigint START 2 INCREMENT 2;
