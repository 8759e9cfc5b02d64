package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"keypool/kgs"
	"keypool/shortener"
)

// keys connects the two domains: it is the key source of package kgs as the Keys of
// package shortener. When the key source has no key, the fallback supplies one.
type keys struct {
	first    kgs.Generator
	fallback kgs.Generator // nil for none
	dry      atomic.Bool   // first had no key for the last first attempt of a creation
}

var _ shortener.Keys = (*keys)(nil)

// Next implements [shortener.Keys].
func (k *keys) Next(ctx context.Context, url string, attempt int) (shortener.Key, error) {
	key, err := k.first.Next(ctx, url, attempt)
	dry := errors.Is(err, kgs.ErrNoKeys)
	// A key source that fails only after conflicts, such as a hash of one URL, is not dry.
	// The load avoids a store for every creation, which would contend for the cache line.
	if attempt == 0 && k.dry.Load() != dry {
		k.dry.Store(dry)
	}
	if dry && k.fallback != nil && ctx.Err() == nil {
		why := err
		if key, err = k.fallback.Next(ctx, url, attempt); err != nil {
			err = fmt.Errorf("%w; the fallback: %w", why, err)
		}
	}
	if err != nil {
		return shortener.Key{}, fmt.Errorf("%w: %w", shortener.ErrKeysExhausted, err)
	}
	out := shortener.Key{Code: key.Code, Source: key.Source}
	if key.Batch != nil {
		out.Batch = key.Batch
	}
	return out, nil
}
