package kgs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Generator returns keys one at a time. A [Source] is a generator that takes batches of keys from a
// [Supply]. The generators of package keysource have no batches: they make a key when a creation
// needs it. Some of these generators request each key from a server. Others need no server.
type Generator interface {
	// Next returns a key for url. Only the hash source uses url. attempt is 0 in the first call for
	// a creation. If another link already has the code of the key, the creation calls Next again, and
	// attempt grows by one. Next is safe for concurrent use and returns at the latest when ctx ends.
	// Next fails with ErrNoKeys if no key is available now, for example because a server does not
	// answer. The caller then uses the fallback. Any other error ends the creation.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// ErrNoKeys means that a generator has no key now. A Source returns ErrNoKeys when its local
// batch is empty and its supply gives no keys.
var ErrNoKeys = errors.New("no key to give")

// Key is a code that a generator gives to one creation.
type Key struct {
	Code   string
	Source string
	Batch  *LocalBatch // the caller reports the outcome of the key to this batch; nil if the key is from no batch
	Again  bool        // whether a creation already got this key and returned it
}

// Fallback is a generator that uses a second generator when the first generator has no key. All
// methods are safe for concurrent use.
type Fallback struct {
	first, second Generator // second is nil if there is no fallback
	dry           atomic.Bool
}

var _ Generator = (*Fallback)(nil)

// NewFallback returns a generator that returns the keys of first. If first fails with ErrNoKeys
// and second is not nil, second makes the key.
func NewFallback(first, second Generator) *Fallback { return &Fallback{first: first, second: second} }

// Next implements [Generator]. If both generators fail, the error contains both errors.
func (f *Fallback) Next(ctx context.Context, url string, attempt int) (Key, error) {
	key, err := f.first.Next(ctx, url, attempt)
	dry := errors.Is(err, ErrNoKeys)
	// Only the first attempt of a creation changes f.dry. A later attempt may fail although the first generator still
	// has keys: after conflicts, the hash source may have no more codes for one URL, but it has codes for other URLs.
	// Without the call of Load, every creation would write f.dry, and concurrent creations would slow each other down.
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

// Probe requests a key from the first generator and discards the key. If Dry returns false, Probe does nothing. A
// server that creates no links calls Probe to find out whether the first generator has keys again. Probe does not
// report what happened to the key, so the first generator must not be a [Source]. Probe blocks as long as Next of the
// first generator.
func (f *Fallback) Probe(ctx context.Context) {
	if !f.Dry() {
		return
	}
	if _, err := f.first.Next(ctx, "", 0); err == nil {
		f.dry.Store(false)
	}
}

// Dry reports whether the first generator had no key at the last call of Next with attempt 0. A
// successful Probe after that call makes Dry return false.
func (f *Fallback) Dry() bool { return f.dry.Load() }
