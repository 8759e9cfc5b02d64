package kgs

import (
	"context"
	"errors"
)

// Generator yields keys one at a time, when a creation wants one. A [Source] does so
// from the local batch that it took from a [Supply]; the schemes that have no batches
// ask whatever they draw on each time, or nobody at all.
type Generator interface {
	// Next gives a key for url, which only a hash looks at; attempt counts from 0 and
	// grows with each conflict that the same creation met. It may be called from any
	// number of goroutines, and blocks as long as ctx allows at the most. It fails with
	// ErrNoKeys when it has nothing to give just now, be it because what it draws on
	// does not answer: then the fallback is asked. Any other error ends the creation.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// ErrNoKeys says that a generator has nothing to give: a Source when its local batch is empty
// and its supply gives nothing.
var ErrNoKeys = errors.New("no key to give")

// Key is a code that was handed to one creation, with the lease that wants to
// hear what became of it.
type Key struct {
	Code   string
	Source string
	Batch  *LocalBatch // nil for a key without a supply that records it
}
