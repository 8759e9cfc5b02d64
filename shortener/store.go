package shortener

import (
	"context"
	"iter"
	"time"
)

// Store keeps links. The packages sqlitestore and pgstore implement it, and both pass
// the conformance suite of package storetest.
//
// A store has two tables. The primary key of the first table is the rank of the code in the
// [Order] of the store. The second table contains the links whose codes have no rank, and its
// primary key is the code. A code belongs to exactly one of the tables, so the two primary keys
// together decide whether a code is free.
//
// All methods may be called concurrently. They block until the engine answers or ctx
// ends. An engine may complete a running statement before it returns. ErrRefused and ErrNotFound
// concern a link or a code, and ErrOtherOrder the order of all links. Every other error concerns the
// engine, which may be unreachable, full or interrupted.
type Store interface {
	// Insert writes all links in one transaction and returns after the transaction is
	// durable. The i-th outcome belongs to the i-th link. A link may be in a later version, or a tombstone, because an import
	// brings such links.
	//
	// The store may already have a row with the code of a link, from a live link, a
	// tombstone or an earlier link of the same call. Insert does not change this row. The
	// outcome is Present if the row equals the link, and Conflict otherwise, even if the row was changed or
	// deleted since. So a call whose outcome is unknown may be repeated with the same
	// links. If a call contains two identical links, the outcome of the second link is
	// Conflict.
	//
	// If the creation of a link has an idempotency key, the transaction also inserts the key. If the owner
	// used the key in the last OnceMemory, Insert does not write the link, and the outcome is Repeated, or
	// Present if the link is the link of that creation. A key whose link has the outcome Conflict remains unused. If
	// another transaction with the same key takes too long, Insert does not write the link, and the outcome is Busy.
	//
	// Insert fails with ErrOtherOrder, and writes nothing, if the database has an order on record that is not the
	// order of the store.
	//
	// An error wraps ErrNotWritten if nothing was written. It also wraps ErrStoreFull if
	// the reason was a lack of disk space. After any other error the rows may or may not
	// be durable. Insert keeps no reference to links.
	Insert(ctx context.Context, links []Link) ([]Outcome, error)
	// Writers returns how many Inserts the store runs at the same time. This number is at
	// least 1 and never changes. Further Inserts wait. Writers does not block.
	Writers() int
	// Lookup returns the row of code, even if the row is a tombstone. It fails with
	// ErrNotFound if there is no row. It sees every Insert that returned before Lookup was
	// called.
	Lookup(ctx context.Context, code string) (Link, error)
	// First returns the creation that used an idempotency key in the last OnceMemory, if its link is durable. Until ForgetKeys
	// removes the key, First may return an older creation. It fails with ErrNotFound if there is no such creation.
	First(ctx context.Context, owner int64, key string) (First, error)
	// ForgetKeys removes up to limit idempotency keys that were used before a time, and returns how many it removed.
	ForgetKeys(ctx context.Context, before time.Time, limit int) (n int, err error)
	// Change replaces the URL, the expiry, the deletion and the details of the row of old.Code by
	// those of changed, in one transaction. It fails with ErrChanged and changes nothing if there is no
	// such row, if the row has another Version than old, or if the row is deleted. If Change fails for
	// another reason, the row may have changed.
	Change(ctx context.Context, old, changed Link) error
	// Newest returns the links of the selection, the newest one first, and the position of the links that
	// follow them. The position is "" if no link follows. Links that were created at almost the same
	// time may be in any order, which never changes. An engine may list an imported link by the time of its Insert instead of its
	// CreatedAt. The cost does not depend on the number of links in the store. Newest fails with ErrPosition if the store did not
	// make the position.
	Newest(ctx context.Context, s Selection) (links []Link, next string, err error)
	// All yields every row in one pass, for the audit. It yields the rows of the first table in the order of
	// their ranks, and then those of the second table. It does not block writers. Rows that are inserted during
	// the pass may be missing. The sequence ends after the first error.
	All(ctx context.Context) iter.Seq2[Row, error]
	// Oldest yields every link with all its members, for an export. It yields the links in the order of their
	// creation, and links that were created at the same time in the order of their codes, so that two stores with the
	// same links yield the same sequence. All links are as they were at one moment. Oldest does not block
	// writers, but until the sequence ends, the engine keeps what writers replace. The sequence ends after the first error.
	Oldest(ctx context.Context) iter.Seq2[Link, error]
	// Ping checks that the store answers and accepts writes.
	Ping(ctx context.Context) error
}

// Row is a row of a store, as an audit reads it.
type Row struct {
	Code   string
	Source string
	Rank   int64 // primary key in the first table; NoRank for a row of the second table
}

// Selection selects links for Newest.
type Selection struct {
	Owner int64  // id of a token; 0 for the links of all owners and the anonymous links
	From  string // position that Newest returned; "" for the newest links
	Limit int    // the maximum number of links, at least 1
}

// Outcome is the result of one link of an Insert.
type Outcome uint8

// The outcomes of an Insert.
const (
	Inserted Outcome = iota + 1
	Conflict
	Present
	Repeated
	Busy
)

// OutcomeOfExisting returns the outcome of links[i] after a conflict: Present or Conflict. The
// parameter stored is the row that the store has with the code of links[i]. The slice outcomes holds
// the outcomes of links[:i]. Every engine uses this function, so that all engines agree on which links are
// identical.
func OutcomeOfExisting(links []Link, outcomes []Outcome, i int, stored Link) Outcome {
	if !Equal(links[i], stored) {
		return Conflict
	}
	for j, earlier := range outcomes[:i] {
		if earlier != Conflict && links[j].Code == stored.Code {
			return Conflict // the row belongs to links[j]
		}
	}
	return Present
}

// Equal reports whether a and b are equal, apart from Once. It compares times in microseconds, because the engines store
// microseconds.
func Equal(a, b Link) bool {
	return a.Code == b.Code && a.URL == b.URL && a.Source == b.Source &&
		a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro() &&
		a.ExpiresAt.UnixMicro() == b.ExpiresAt.UnixMicro() && a.DeletedAt.UnixMicro() == b.DeletedAt.UnixMicro() &&
		equalDetails(a.Details, b.Details)
}
