package kgs

import (
	"context"
	"errors"
)

// Generator returns keys one at a time, when a creation needs one. A [Source] takes them from a
// local batch of a [Supply]. A key source without batches makes each key when it is needed.
// Some of these sources ask a server for each key; others need no server.
type Generator interface {
	// Next returns a key for url. Only the hash source uses url. attempt counts from 0 and
	// grows with each conflict of the same creation. Next is safe for concurrent use and blocks
	// until ctx ends at the latest. It fails with ErrNoKeys if no key is available now, for
	// example because a server does not answer; the caller then asks the fallback. Any other
	// error ends the creation.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// ErrNoKeys means that a generator has no key to give. A Source returns it when its local batch
// is empty and its supply gives no keys.
var ErrNoKeys = errors.New("no key to give")

// Key is a code that a generator gives to one creation.
type Key struct {
	Code   string
	Source string
	Batch  *LocalBatch // the batch to report the outcome to; nil if no supply records the key
}
