package shortener

import "context"

// Keys yields the codes of new links. Every scheme fits behind it: a pool ignores
// both arguments, a hash uses both.
type Keys interface {
	// Next gives a key for url; attempt counts from 0 and grows with each conflict
	// that the same creation met. It may be called from any number of goroutines.
	// It blocks at most as long as ctx allows, and while a local batch lasts not
	// at all. It fails with ErrKeysExhausted when there is nothing to give.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// Key is a code that was drawn for one creation. Its holder owes the Lease, if
// there is one, exactly one word about what became of the code.
type Key struct {
	Code   string
	Source string // what the link's Source will be; also a metric label
	Lease  Lease  // nil where nobody keeps account
}

// Lease keeps account of keys that were handed out. Its methods do not block and
// may be called from any goroutine.
type Lease interface {
	// Spent says that the store holds a row with a code of this lease.
	Spent()
	// Unused says that code is surely not in the store: it may be handed out again.
	Unused(code string)
	// Lost says that code may or may not be in the store: it is never handed out again.
	Lost(code string)
}
