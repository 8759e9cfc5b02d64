package shortener

import (
	"context"
	"errors"
	"iter"
	"time"
)

// ErrRefused says that the engine does not take the data of one of the links, however
// often it is asked. It comes together with ErrNotWritten.
var ErrRefused = errors.New("the store refuses the data of a link")

// Store keeps links. Implementations: [PostgresStore], [SQLiteStore]; both pass
// the one conformance suite in store_test.go.
//
// All methods may be called concurrently and honour ctx. An error of a method is
// about the engine (not reachable, full, interrupted), never about a link; the one
// exception is ErrRefused.
type Store interface {
	// Insert writes all links in one transaction and returns once it is durable.
	// The i-th outcome is that of the i-th link: a code that the store knows
	// already, be it as a tombstone or from an earlier link of the same call, is
	// Conflict and leaves the old row as it was. Where that row is identical to the link
	// in all but its deletion it is Present instead: so a call whose outcome is unknown
	// may be repeated with the same links. Of two identical links in one call the second
	// is a Conflict.
	// An error wraps ErrNotWritten when surely nothing was written, and ErrStoreFull
	// when that was for want of space. Insert keeps no reference to links.
	Insert(ctx context.Context, links []Link) ([]Outcome, error)
	// Lookup reads the row of code, tombstone or not; ErrNotFound if there is none.
	// It never answers from a state older than an Insert that has returned.
	Lookup(ctx context.Context, code string) (Link, error)
	// Delete turns the row of code into a tombstone, now; ErrNotFound if there is none.
	// Deleting twice keeps the first time.
	Delete(ctx context.Context, code string, now time.Time) error
	// All yields the code and source of every row, for the audit, in one pass
	// without locking writers out. Rows inserted meanwhile may or may not be seen.
	// It ends after the first error.
	All(ctx context.Context) iter.Seq2[Link, error]
	// Ping reports whether the store can answer and take writes.
	Ping(ctx context.Context) error
}

// Outcome is what became of one link of an Insert.
type Outcome uint8

// The outcomes of an Insert.
const (
	Inserted Outcome = iota + 1
	Conflict
	Present
)

// judge is the outcome of links[i], whose code row has; outcomes are those of the
// links before it.
func judge(links []Link, outcomes []Outcome, i int, row Link) Outcome {
	if !sameCreation(links[i], row) {
		return Conflict
	}
	for j, before := range outcomes[:i] {
		if before != Conflict && links[j].Code == row.Code {
			return Conflict // the row is that one's
		}
	}
	return Present
}

// sameCreation reports whether a and b are equal as the engines keep them, apart from a deletion.
func sameCreation(a, b Link) bool {
	return a.Code == b.Code && a.URL == b.URL && a.Source == b.Source &&
		a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro() &&
		a.ExpiresAt.UnixMicro() == b.ExpiresAt.UnixMicro()
}
