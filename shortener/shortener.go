// Package shortener defines short links, the rules for them, and the contracts between the parts that create and store them.
//
// Vocabulary:
//
//   - A link binds a code to a URL. It is one row of the [Store].
//   - A code is the string in a short URL: a key, an alias, or the code of an imported link.
//   - A key is a code that is ready to be assigned. [Keys] supplies keys.
//   - An alias is a code that the user chose.
//   - A tombstone is a link that was deleted or has expired. Its row stays in the store.
//   - The block list is the set of hosts that links must not lead to. It covers a host if it
//     contains the host or a parent domain of the host.
//   - The origin is the scheme, host and port under which clients reach this service.
//   - The owner of a link is the token to which the link belongs. A link without an owner is anonymous.
//   - A link is fixed or editable. The URL of a fixed link never changes. Only a link with an owner can be editable.
//     The owner makes this choice at the creation of the link.
//
// The contracts of [Store] and [Keys], and package service, ensure these invariants, even if the store or a key source
// fails:
//
//   - Only the primary keys of the store decide whether a code is free.
//   - After the service has acknowledged a fixed link, its code never resolves to another URL, not even
//     after the link expired or was deleted. After the service has acknowledged a change of an editable
//     link, its code resolves to the new URL. Another server may use the older URL for a short time. If that
//     server does not reach the store, the time may be longer (see package service).
//
// [Request], [Patch] and [ImportRules] decide which links are valid. Package service creates, resolves
// and manages links. The packages sqlitestore, pgstore and citusstore implement the store. This package
// does no input or output. It imports none of these packages, no package of the key generation service
// and no HTTP package.
package shortener

import "time"

// SourceAlias is the Source of a [Link] whose code the user chose. The Source of a link with a key is the
// name of the key source of the code ("pool", "ledger", "random", ...), or SourceFormer.
const SourceAlias = "alias"

// SourceRandom is the Source of random keys. If a creation tried random keys and succeeded, the metric
// kgs_fallback_attempts records how many random keys the creation tried.
const SourceRandom = "random"

// SourceImport is the Source of a link that an import stored. The code of such a link does not come
// from the ledger, which is the durable record of the numbers behind the keys.
const SourceImport = "import"

// SourceFormer is the Source of a link whose key came from a ledger that was replaced by another
// ledger.
const SourceFormer = "former"

// Link is one row of the store. Times are in UTC with a precision of one microsecond,
// which every engine can store. The zero time stands for "never".
type Link struct {
	Code           string
	URL            string // as it appears in the Location header
	Source         string // SourceAlias, SourceImport, SourceFormer, or the key source of the code
	CreatedAt      time.Time
	ExpiresAt      time.Time
	DeletedAt      time.Time
	Details        *Details        // nil if all members of Details have their default values
	IdempotencyKey *IdempotencyKey // set only in a link that is passed to Insert; nil for a creation without an idempotency key
}

// Gone reports whether the link is a tombstone at the given time.
func (l *Link) Gone(now time.Time) bool {
	return !l.DeletedAt.IsZero() || (!l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt))
}
