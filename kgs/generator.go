package kgs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// Fallback is a generator that has a second one for the times when the first has no key. All
// methods are safe for concurrent use.
type Fallback struct {
	first, second Generator // second is nil for none
	dry           atomic.Bool
}

var _ Generator = (*Fallback)(nil)

// NewFallback returns a generator of the keys of first. When first fails with ErrNoKeys, second
// makes the key, unless it is nil.
func NewFallback(first, second Generator) *Fallback { return &Fallback{first: first, second: second} }

// Next implements [Generator]. The error of the second generator contains that of the first.
func (f *Fallback) Next(ctx context.Context, url string, attempt int) (Key, error) {
	key, err := f.first.Next(ctx, url, attempt)
	dry := errors.Is(err, ErrNoKeys)
	// Later attempts do not count: a hash of one URL may run out of codes after conflicts while
	// it works for other URLs. The load before the store spares creations a contended write.
	if attempt == 0 && f.dry.Load() != dry {
		f.dry.Store(dry)
	}
	if dry && f.second != nil && ctx.Err() == nil {
		why := err
		if key, err = f.second.Next(ctx, url, attempt); err != nil {
			err = fmt.Errorf("%w; the fallback: %w", why, err)
		}
	}
	return key, err
}

// Dry reports whether the first generator had no key at the latest first attempt of a creation.
func (f *Fallback) Dry() bool { return f.dry.Load() }
