package shortener

import (
	"context"
	"iter"
	"time"
)

// Store keeps links. The packages sqlitestore and pgstore implement it, and both pass
// the conformance suite of package storetest.
//
// All methods may be called concurrently. They block until the engine answers or ctx
// ends. An error describes the engine (unreachable, full, interrupted) and not a link;
// the only exception is ErrRefused.
type Store interface {
	// Insert writes all links in one transaction and returns after the transaction is
	// durable. The i-th outcome belongs to the i-th link. A link whose code the store
	// already has, from a live link, a tombstone or an earlier link of the same call,
	// does not change the stored row; its outcome is Present when the stored row equals
	// the link in everything but the deletion, and Conflict otherwise. A call whose
	// outcome is unknown may therefore be repeated with the same links. Of two identical
	// links in one call the second is a Conflict.
	//
	// An error wraps ErrNotWritten when nothing was written, and ErrStoreFull when the
	// reason was a lack of disk space. After any other error the rows may or may not be
	// durable. Insert keeps no reference to links.
	Insert(ctx context.Context, links []Link) ([]Outcome, error)
	// Writers returns how many Inserts the store carries out at the same time, at least
	// one; further ones wait for their turn. It does not block, and its result never
	// changes.
	Writers() int
	// Lookup reads the row of code, also when it is a tombstone, or fails with
	// ErrNotFound. It sees every Insert that returned before it was called.
	Lookup(ctx context.Context, code string) (Link, error)
	// Delete turns the row of code into a tombstone at the time now, or fails with
	// ErrNotFound. Deleting a link twice keeps the first time.
	Delete(ctx context.Context, code string, now time.Time) error
	// All yields the code and the source of every row in one pass, for the audit. It
	// does not lock out writers. Rows inserted during the pass may or may not appear.
	// The sequence ends after the first error.
	All(ctx context.Context) iter.Seq2[Link, error]
	// Ping checks that the store answers and accepts writes.
	Ping(ctx context.Context) error
}

// Outcome is the result of one link of an Insert.
type Outcome uint8

// The outcomes of an Insert.
const (
	Inserted Outcome = iota + 1
	Conflict
	Present
)

// OutcomeOfExisting returns the outcome of links[i] when the store already had stored
// under the same code: Present or Conflict. The outcomes of links[:i] are in outcomes.
// Every engine uses it, so that all of them agree on what an identical link is.
func OutcomeOfExisting(links []Link, outcomes []Outcome, i int, stored Link) Outcome {
	if !sameCreation(links[i], stored) {
		return Conflict
	}
	for j, earlier := range outcomes[:i] {
		if earlier != Conflict && links[j].Code == stored.Code {
			return Conflict // the row belongs to links[j]
		}
	}
	return Present
}

// sameCreation reports whether a and b are equal as the engines keep them, apart from
// their deletion.
func sameCreation(a, b Link) bool {
	return a.Code == b.Code && a.URL == b.URL && a.Source == b.Source &&
		a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro() &&
		a.ExpiresAt.UnixMicro() == b.ExpiresAt.UnixMicro()
}
