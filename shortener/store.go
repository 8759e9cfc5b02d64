package shortener

import (
	"context"
	"iter"
	"time"
)

// Store keeps links. The packages sqlitestore, pgstore and citusstore implement Store, and pass the conformance suite
// of package storetest.
//
// A store has two tables. The primary key of the first table is the rank of the code in the
// [Order] of the store. The second table contains the links whose codes have no rank, and its
// primary key is the code. A code belongs to exactly one of the tables, so the two primary keys
// together decide whether a code is free.
//
// All methods may be called concurrently. They block until the database engine answers or ctx ends. After ctx ends, a
// method may still wait until the engine has completed a running statement. ErrRefused, ErrNotFound, ErrChanged and
// ErrPosition concern the arguments of the call. ErrDetails concerns one row. ErrOtherOrder concerns the order of all
// links. Every other error concerns the engine, which may be unreachable, full or interrupted.
type Store interface {
	// Insert writes all links in one transaction and returns after the transaction is durable. The i-th outcome belongs to
	// the i-th link. An import inserts links that were changed or deleted before, so a link may have a Version above 1 or be
	// a tombstone.
	//
	// The store may already have a row with the code of a link. The row belongs to a live link, a tombstone or an earlier
	// link of the same call. Insert does not change this row. The outcome is Present if the row equals the link, and
	// Conflict if the row differs from the link. So a caller that does not know the outcome of a call may repeat the call
	// with the same links. But if the row was changed or deleted after its insert, it differs from the link, and the
	// outcome is Conflict. If a call contains two identical links, the outcome of the second link is Conflict. If a row
	// already existed, Insert returns only after this row is durable.
	//
	// If the creation of a link has an idempotency key (Link.IdempotencyKey), the transaction also inserts the key. Insert
	// does not write the link in three cases:
	//
	//   - the owner used the key for another creation within the last IdempotencyKeyLifetime (24 hours): the outcome is
	//     Repeated;
	//   - an earlier call inserted the same link with the key: the outcome is Present;
	//   - the code has any other row, even a row that equals the link: the outcome is Conflict, and the key remains unused.
	//
	// If another transaction with the same key takes too long, Insert does not write the link, and the outcome is
	// Busy. If another transaction with the same code takes too long, Insert writes neither the link nor its key, and
	// the outcome is CodeBusy. If this happens for many codes, the outcome of other links may be CodeBusy too. Insert
	// does not write these links either.
	//
	// The database records the order of its links. If this order differs from the order of the store, Insert fails with
	// ErrOtherOrder.
	//
	// If an error wraps ErrNotWritten, nothing was written. The error also wraps ErrStoreFull if the reason was a lack of
	// disk space. After any error that does not wrap ErrNotWritten, the rows may or may not be durable. Insert keeps no
	// reference to links.
	Insert(ctx context.Context, links []Link) ([]Outcome, error)
	// Writers returns the maximum number of Inserts that the store runs at the same time. Further Inserts wait. The number is
	// at least 1 and never changes. Writers does not block.
	Writers() int
	// Lookup returns the row of code, even if the row is a tombstone. It fails with
	// ErrNotFound if there is no row. It sees every Insert that returned before Lookup was
	// called.
	Lookup(ctx context.Context, code string) (Link, error)
	// FirstCreation returns the creation for which this owner used the idempotency key. It returns only after the link of this
	// creation is durable. If there is no such creation, it fails with ErrNotFound. The store keeps each key at least for
	// IdempotencyKeyLifetime. After this time, the store keeps the key until ForgetKeys removes it or a new creation uses it.
	FirstCreation(ctx context.Context, owner int64, key string) (FirstCreation, error)
	// ForgetKeys removes up to limit idempotency keys that were used before a time, and returns how many it removed.
	ForgetKeys(ctx context.Context, before time.Time, limit int) (n int, err error)
	// Change updates the row of old.Code in one transaction: it sets the URL, the expiry, the deletion and the details to
	// the values in changed. Change changes nothing and fails with ErrChanged in three cases:
	//
	//   - there is no such row;
	//   - the Version of the row is not the Version of old;
	//   - the row has a DeletedAt that differs from changed.DeletedAt, so no change revives a deleted link.
	//
	// Change returns after the row is durable, even if changed equals old. After any error other than ErrChanged, the row
	// may have changed.
	Change(ctx context.Context, old, changed Link) error
	// Newest returns the links of the selection, the newest link first. It also returns the position from which the next
	// call continues, or "" if no link follows. Links that were created at almost the same time may be in any order, but
	// this order never changes. An engine may list an imported link by the time of its Insert instead of its CreatedAt. The
	// cost does not depend on the number of links in the store. Newest fails with ErrPosition if s.From is not a position of
	// this store.
	Newest(ctx context.Context, s Selection) (links []Link, next string, err error)
	// All yields every row in one pass. The audit uses All to account for each key. All yields the rows of the first table in
	// the order of their ranks, and then the rows of the second table. It does not block writers. Rows that are inserted
	// during the pass may be missing. The sequence ends after the first error.
	All(ctx context.Context) iter.Seq2[Row, error]
	// Oldest yields every link with all its members, for an export. It yields the links in the order of their creation,
	// and links that were created at the same time in the order of their codes. So two stores with the same links yield
	// the same sequence. Except on Citus, the sequence is a snapshot: it shows all links at one moment. Oldest does not
	// block writers. But until the sequence ends, the engine keeps the old versions of rows that writers replace. The
	// sequence ends after the first error.
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
	Owner int64  // id of a token; 0 selects the links of all owners and the anonymous links
	From  string // position that Newest returned; "" for the newest links
	Limit int    // the maximum number of links, at least 1
}

// Outcome is the result of one link of an Insert.
type Outcome uint8

// The outcomes of an Insert. Only Inserted means that this call wrote the link.
const (
	Inserted Outcome = iota + 1
	Conflict
	Present
	Repeated
	Busy
	CodeBusy
)

// OutcomeOfExisting returns the outcome of links[i], which is Present or Conflict. An engine calls OutcomeOfExisting if the
// store already had a row with the code of links[i], and passes this row as stored. The slice outcomes holds the outcomes
// of links[:i]. Every engine uses this function, so that all engines agree on which links are identical.
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

// Equal reports whether a and b are equal. It ignores IdempotencyKey. It compares times in microseconds, because the engines store
// microseconds.
func Equal(a, b Link) bool {
	return a.Code == b.Code && a.URL == b.URL && a.Source == b.Source &&
		a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro() &&
		a.ExpiresAt.UnixMicro() == b.ExpiresAt.UnixMicro() && a.DeletedAt.UnixMicro() == b.DeletedAt.UnixMicro() &&
		equalDetails(a.Details, b.Details)
}
