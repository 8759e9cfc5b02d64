package shortener

import (
	"context"
	"errors"
)

// Keys supplies the codes of new links. A pool ignores the URL and the attempt, a hash
// uses both, and every other key source fits in between.
type Keys interface {
	// Next returns a key for url. The first attempt of a creation is 0, and each
	// conflict increases it by one. Next may be called concurrently. It returns at once
	// while a local batch has keys; otherwise it blocks until a key arrives or ctx ends.
	// It fails with ErrKeysExhausted when no key is available.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// Key is a code drawn for one creation. The creation settles it exactly once.
type Key struct {
	Code   string
	Source string // becomes the Source of the link; also a metric label
	Batch  Batch  // nil for a key source without accounting
}

// Batch records what happened to the keys of one batch. Its methods do not block and
// may be called concurrently.
type Batch interface {
	// Spent records that the store has a row with a code of this batch.
	Spent()
	// Unused records that the store has no row with code: it may be handed out again.
	Unused(code string)
	// Lost records that the store may have a row with code: it is never handed out
	// again.
	Lost(code string)
}

// settle reports to the batch what happened to the key. The result of its commit is err.
func (k Key) settle(err error) {
	switch {
	case k.Batch == nil:
	case err == nil: // also after a conflict: another link has the code
		k.Batch.Spent()
	case errors.Is(err, ErrNotWritten):
		k.Batch.Unused(k.Code)
	default:
		k.Batch.Lost(k.Code)
	}
}
