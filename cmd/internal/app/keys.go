package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"keypool/kgs"
	"keypool/shortener"
)

// keys adapts the generators of kgs to the Keys of shortener. When first has no key, fallback
// makes one.
type keys struct {
	first    kgs.Generator
	fallback kgs.Generator // nil for none
	dry      atomic.Bool   // first had no key at the latest first attempt of a link
}

var _ shortener.Keys = (*keys)(nil)

// Next implements [shortener.Keys].
func (k *keys) Next(ctx context.Context, url string, attempt int) (shortener.Key, error) {
	key, err := k.first.Next(ctx, url, attempt)
	dry := errors.Is(err, kgs.ErrNoKeys)
	// Later attempts do not count: a hash of one URL may run out of codes after conflicts while
	// it works for other URLs. The load before the store spares creations a contended write.
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
