package schemes

import (
	"context"
)

// scheme is one way to get codes, and what one has to know of it to measure it.
type scheme struct {
	name     string // in tables
	title    string
	settings []string // "NAME=value", with KEY_SOURCE
	class    string   // that its codes are of

	pooled  bool // takes keys many at a time, ahead of use
	asks    bool // calls its supply for each key
	guessed bool // its codes follow from those before them

	redis   bool // what it needs beside the database of the links
	tickets bool
	service bool

	used used   // how its space is filled without making links; nil where it cannot be filled
	gaps gaps   // how numbers that it skipped can be seen; nil where it has no numbers
	back string // how long after a crash it gives out again what that skipped; "": never
}

// all is every scheme in the order of the tables.
func all() []scheme {
	source := func(name string, more ...string) []string { return append([]string{"KEY_SOURCE=" + name}, more...) }
	return []scheme{
		{name: "redis-pool", title: "KGS: a pool in Redis", settings: source("redis-pool"),
			class: "random", pooled: true, redis: true, used: ledgerAt, gaps: abandoned},
		{name: "memory-pool", title: "KGS: a pool in the process", settings: source("memory-pool"),
			class: "random", pooled: true, used: ledgerAt, gaps: abandoned},
		{name: "kgs", title: "KGS: a service of its own", settings: source("kgs"),
			class: "random", pooled: true, service: true, used: serviceAt, gaps: everyNumber},
		{name: "postgres-pool-delete", title: "KGS: a pool in PostgreSQL, keys taken by DELETE", settings: source("postgres-pool", "KGS_TAKE=delete"),
			class: "random", pooled: true, used: usedKeys, gaps: keysGone},
		{name: "postgres-pool-reserve", title: "KGS: a pool in PostgreSQL, keys marked as reserved", settings: source("postgres-pool", "KGS_TAKE=reserve"),
			class: "random", pooled: true, used: usedKeys, gaps: keysReserved, back: "ten minutes"},
		{name: "ledger", title: "Ranges claimed from a ledger, permuted", settings: source("ledger"),
			class: "random", pooled: true, used: ledgerAt, gaps: abandoned},
		{name: "ledger-in-order", title: "Ranges claimed from a ledger, in order", settings: source("ledger", "KGS_PERMUTE=false"),
			class: "counter", pooled: true, guessed: true, used: ledgerAt, gaps: abandoned},
		{name: "redis-incr", title: "A counter in Redis", settings: source("redis-incr"),
			class: "counter", asks: true, guessed: true, redis: true, used: counterAt, gaps: everyNumber},
		{name: "ticket", title: "Two ticket databases, odd and even", settings: source("ticket"),
			class: "counter", asks: true, guessed: true, tickets: true, used: ticketsAt, gaps: oddAndEven},
		{name: "snowflake", title: "Time, machine and sequence", settings: source("snowflake"),
			class: "time", guessed: true},
		{name: "hash", title: "SHA-256 of the URL, cut short", settings: source("hash"),
			class: "hash"},
		{name: "uuid", title: "128 bits of chance", settings: source("uuid"),
			class: "uuid"},
		{name: "random", title: "Chance, and again on a conflict", settings: source("random"),
			class: "random", used: nothing},
	}
}

// used brings a scheme that is about to start to where it has given out the first n codes of
// length 3, which are the links that there are. It is called while nobody uses the databases.
type used func(ctx context.Context, r *running, n int64) error

// gaps counts the numbers, or keys, that were taken by a server and are no link, nor to be
// had again at the moment, when the server has ended in order.
type gaps func(ctx context.Context, g *stage, r *running) (int64, error)
