package app

import (
	"context"
	"errors"
	"fmt"

	"keypool/kgs"
	"keypool/shortener"
)

// nextKey gives one key, as kgs.Source and kgs.Random do.
type nextKey func(ctx context.Context) (kgs.Key, error)

// keys is the seam between the two domains: the supply chain of kgs as the Keys of
// shortener. When the local batch gives nothing, the fallback is asked.
type keys struct {
	first    nextKey
	fallback nextKey // nil for none
}

var _ shortener.Keys = keys{}

// Next ignores the URL and the attempt: after a conflict simply the next key is taken.
func (k keys) Next(ctx context.Context, _ string, _ int) (shortener.Key, error) {
	key, err := k.first(ctx)
	if errors.Is(err, kgs.ErrNoKeys) && k.fallback != nil && ctx.Err() == nil {
		key, err = k.fallback(ctx)
	}
	if err != nil {
		return shortener.Key{}, fmt.Errorf("%w: %w", shortener.ErrKeysExhausted, err)
	}
	out := shortener.Key{Code: key.Code, Source: key.Source}
	if key.Lease != nil {
		out.Lease = key.Lease
	}
	return out, nil
}
