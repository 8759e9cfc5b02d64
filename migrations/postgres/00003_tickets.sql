-- +goose Up

-- The tickets of KEY_SOURCE=ticket. Of two databases, one issues the odd numbers and the other
-- the even ones. Each database has both sequences, so that one database can also serve as both.
CREATE SEQUENCE kgs_tickets_odd  AS bigint START 1 INCREMENT 2;
CREATE SEQUENCE kgs_tickets_even AS bigint START 2 INCREMENT 2;
