package shortener

import "context"

// Keys supplies the codes of new links. A pool ignores the URL and the attempt. A hash uses
// both.
type Keys interface {
	// Next returns a key for url. The first attempt of a creation is 0. Each
	// conflict increases it by one, and so does each key without a batch that the creation could not use. Next may be called concurrently. It returns at once
	// while a local batch has keys. Otherwise it blocks until a key arrives or ctx ends.
	// It fails with ErrKeysExhausted when no key is available.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// Key is a code drawn for one creation. The creation settles it exactly once.
type Key struct {
	Code   string
	Source string // the Source of the link and a metric label
	Batch  Batch  // nil for a key source that has no batches
}

// Batch records what happened to the keys of one batch. Its methods do not block and
// may be called concurrently.
type Batch interface {
	// Used records that the store has a row with a code of this batch.
	Used()
	// Returned records that the store has no row with code. The code may be handed out again.
	Returned(code string)
	// Lost records that the store may have a row with code. The code is never handed out
	// again.
	Lost(code string)
}
