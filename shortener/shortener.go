// Package shortener defines short links, the rules for them, and the contracts between the parts that create and store them.
//
// Vocabulary:
//
//   - A link binds a code to a URL. It is one row of the [Store].
//   - A code is the string in a short URL: a key or an alias.
//   - A key is a code that is ready to be assigned. [Keys] supplies keys.
//   - An alias is a code that the user chose.
//   - A tombstone is a link that was deleted or has expired. Its row stays in the store.
//   - The block list is the set of hosts that links must not lead to. It covers a host if it has
//     the host or a parent domain of the host.
//   - The origin is the scheme, host and port under which clients reach this service.
//   - The owner of a link is the token to which the link belongs. A link without an owner is anonymous.
//   - A link is fixed, unless its owner created it as editable. The URL of a fixed link never changes.
//
// The contracts of [Store] and [Keys] and package service keep these invariants, even when the store or a key source
// fails:
//
//   - Only the primary key of the store enforces uniqueness.
//   - An acknowledged code of a fixed link never resolves to another URL, not even after its link
//     expired or was deleted. The code of an editable link resolves to the last acknowledged URL.
//
// [Request], [Patch] and [ImportRules] decide what a link may be. Package service creates, resolves and
// manages links. The packages sqlitestore and pgstore implement the store. This package imports none of
// these packages, not the key generation service and no HTTP package, and it does no input or output.
package shortener

import "time"

// SourceAlias is the Source of a [Link] whose code the user chose. Every other value is the
// name of the key source of the code ("pool", "ledger", "random", ...).
const SourceAlias = "alias"

// SourceRandom is the Source of random keys. The metric kgs_fallback_attempts counts
// the random keys that a creation tried.
const SourceRandom = "random"

// SourceImport is the Source of a link that an import brought. Its code is not a key of the ledger.
const SourceImport = "import"

// SourceFormer is the Source of a link whose key belongs to a ledger that was replaced.
const SourceFormer = "former"

// Link is one row of the store. Times are in UTC with a precision of one microsecond,
// which every engine can store. The zero time stands for "never".
type Link struct {
	Code      string
	URL       string // as it appears in the Location header
	Source    string // SourceAlias, or the key source of the code
	CreatedAt time.Time
	ExpiresAt time.Time
	DeletedAt time.Time
	Details   *Details // nil for an anonymous link that was never changed
	Once      *Once    // only in an Insert; nil for a creation without an idempotency key
}

// Gone reports whether the link is a tombstone at the time now.
func (l *Link) Gone(now time.Time) bool {
	return !l.DeletedAt.IsZero() || (!l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt))
}
