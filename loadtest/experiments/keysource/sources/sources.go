// Package sources lists every key source and starts servers that use a key source. The experiments
// that test or compare all key sources use this package.
//
// To add a key source to the experiments, add an entry to the table in this package, and the files of the
// key source to the list in package compare. A key source whose state is not in the ledger, such as a
// counter in another database, needs two more changes: package space must set this state (giveOut), and
// package compare must count the numbers that a crash skips (skippedBy).
//
// Vocabulary: a [Supply] of a server names the database of the links, and the databases and services
// that the key source needs. The class of a key source is the kind of its codes. The form of codes is
// their length and the set of their digits.
package sources

import (
	"crypto/rand"
	"slices"

	"keypool/loadtest/lab"
)

// Class is the kind of codes that a key source makes.
type Class string

// The classes.
const (
	Counter Class = "counter" // consecutive numbers
	Time    Class = "time"    // numbers that begin with the time
	Random  Class = "random"  // six digits; successive codes are in random order
	Hash    Class = "hash"    // six digits of base64url; successive codes are in random order
	UUID    Class = "uuid"    // 22 digits; successive codes are in random order
	Other   Class = "other"   // a variant that [Compared] leaves out, or a rival of package compare
)

// Source describes one key source, as an operator selects it and a client observes it.
type Source struct {
	Name     string   // name in experiments and in tables
	Title    string   // description of a few words
	Settings []string // settings that select the key source
	Label    string   // label of its keys in kgs_keys_taken_total
	Code     string   // regular expression that matches each whole code
	Class    Class

	Programs string // directory of programs that have the key source; "" means the programs of the run

	Redis   bool // whether the key source needs a Redis
	Tickets bool // whether the key source needs two ticket databases
	Service bool // whether the key source needs a key service with its own database
}

// sixDigits matches the codes of counters, and random codes, with the default CODE_LENGTH.
const sixDigits = `[0-9A-Za-z]{6}`

// All returns every key source in the order of reports.
func All() []Source {
	by := func(name string, more ...string) []string { return append([]string{"KEY_SOURCE=" + name}, more...) }
	return []Source{
		{Name: "redis-pool", Title: "a pool in Redis", Settings: by("redis-pool"), Label: "pool", Code: sixDigits, Class: Random, Redis: true},
		{Name: "memory-pool", Title: "a pool in the process", Settings: by("memory-pool"), Label: "pool", Code: sixDigits, Class: Random},
		{Name: "kgs", Title: "a key service", Settings: by("kgs"), Label: "kgs", Code: sixDigits, Class: Random, Service: true},
		{Name: "postgres-pool-delete", Title: "a pool in PostgreSQL, keys taken by DELETE", Settings: by("postgres-pool", "KGS_TAKE=delete"),
			Label: "postgres-pool", Code: sixDigits, Class: Random},
		{Name: "postgres-pool-reserve", Title: "a pool in PostgreSQL, keys marked as reserved", Settings: by("postgres-pool", "KGS_TAKE=reserve"),
			Label: "postgres-pool", Code: sixDigits, Class: Random},
		{Name: "ledger", Title: "ranges of the ledger, permuted", Settings: by("ledger"), Label: "ledger", Code: sixDigits, Class: Random},
		{Name: "ledger-in-order", Title: "ranges of the ledger, in order", Settings: by("ledger", "KGS_PERMUTE=false"),
			Label: "ledger", Code: sixDigits, Class: Counter},
		{Name: "redis-incr", Title: "a counter in Redis", Settings: by("redis-incr"), Label: "redis-incr", Code: sixDigits, Class: Counter, Redis: true},
		{Name: "ticket", Title: "two ticket databases, one with odd and one with even numbers", Settings: by("ticket"), Label: "ticket", Code: sixDigits, Class: Counter, Tickets: true},
		{Name: "snowflake", Title: "numbers made of time, machine id and sequence", Settings: by("snowflake"), Label: "snowflake", Code: `[0-9A-Za-z]{11}`, Class: Time},
		{Name: "hash", Title: "truncated SHA-256 of the URL", Settings: by("hash", "HASH_ALGORITHM=sha256"),
			Label: "hash", Code: `[0-9A-Za-z_-]{6}`, Class: Hash},
		{Name: "hash-md5", Title: "truncated MD5 of the URL", Settings: by("hash", "HASH_ALGORITHM=md5"),
			Label: "hash", Code: `[0-9A-Za-z_-]{6}`, Class: Other},
		{Name: "uuid", Title: "128 random bits", Settings: by("uuid"), Label: "uuid", Code: `[0-9A-Za-z]{22}`, Class: UUID},
		{Name: "random", Title: "random codes, drawn again after a conflict", Settings: by("random"), Label: "random", Code: sixDigits, Class: Random},
	}
}

// Compared returns the key sources that are compared with each other.
func Compared() []Source {
	return slices.DeleteFunc(All(), func(s Source) bool { return s.Class == Other })
}

// Supply holds the URLs of the databases that a server uses. Links is always set. Each other URL is set only
// if the key source of the server needs it.
type Supply struct {
	Links   string
	Redis   string
	Tickets [2]string
	Keys    string       // database of the key service
	Service *lab.Program // the key service; nil before Connect, and if the key source needs none
}

// Connect starts the key service if the key source needs one. It returns the settings of a server:
// the parameter more, the settings of the key source and those of the supply. The key service gets the
// settings in more too.
func (s *Source) Connect(r lab.Run, at *Supply, more ...string) []string {
	settings := slices.Concat(more, s.Settings, []string{"DATABASE_URL=" + at.Links})
	if s.Redis {
		settings = append(settings, "REDIS_URL="+at.Redis)
	}
	if s.Tickets {
		settings = append(settings, "TICKET_DATABASE_URLS="+at.Tickets[0]+","+at.Tickets[1])
	}
	if s.Service {
		listen, err := lab.FreeAddr()
		if err != nil {
			r.Fatalf("choose the address of the key service: %v", err)
		}
		token := rand.Text()
		at.Service = lab.Worker(r, slices.Concat(more, []string{"DATABASE_URL=" + at.Keys, "KGS_TOKENS=shortener=" + token, "KGS_LISTEN_ADDR=" + listen})...)
		at.Service.Start()
		settings = append(settings, "KGS_URL=http://shortener:"+token+"@"+listen)
	}
	return settings
}
