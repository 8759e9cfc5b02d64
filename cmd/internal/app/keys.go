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
	dry      atomic.Bool   // first gave nothing when it was last asked for the first code of a link
}

var _ shortener.Keys = (*keys)(nil)

// Next implements [shortener.Keys].
func (k *keys) Next(ctx context.Context, url string, attempt int) (shortener.Key, error) {
	key, err := k.first.Next(ctx, url, attempt)
	dry := errors.Is(err, kgs.ErrNoKeys)
	// What fails only after conflicts, as a hash of one URL may, is not away. A store each
	// time would be felt by every creation.
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
