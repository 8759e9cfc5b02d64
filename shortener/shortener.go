// Package shortener makes short links and resolves them.
//
// Vocabulary: a link binds a code to a URL. A code is what follows the host in a
// short URL: either a key, drawn from a [Keys] supply, or an alias, chosen by the
// user. A link that was deleted or has expired stays in the store as a tombstone.
//
// Invariants, whatever fails underneath:
//
//   - a creation is acknowledged only after its row is durable;
//   - the primary key of the store is the only judge of uniqueness: nothing is
//     looked up before it is inserted;
//   - a code, once acknowledged, never resolves to another URL, also not after
//     it expired or was deleted.
//
// The package knows nothing of where keys come from, nor of HTTP.
package shortener

import "time"

// SourceAlias is the [Link] Source of a link whose code the user chose. Every
// other value names the supply that its key came from ("pool", "ledger",
// "random", ...).
const SourceAlias = "alias"

// SourceRandom is the Source of keys drawn by chance, whose attempts are a metric of
// their own.
const SourceRandom = "random"

// Link is one row of the store. Times are UTC with microsecond precision, which
// is what every engine keeps; the zero time stands for "never".
type Link struct {
	Code      string
	URL       string // as the Location header will say it
	Source    string // SourceAlias, or the supply of the key
	CreatedAt time.Time
	ExpiresAt time.Time
	DeletedAt time.Time
}

// Gone reports whether the link is a tombstone at the moment now.
func (l *Link) Gone(now time.Time) bool {
	return !l.DeletedAt.IsZero() || (!l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt))
}
