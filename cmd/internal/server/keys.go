package server

import (
	"context"
	"fmt"

	"keypool/kgs"
	"keypool/shortener"
)

// keys adapts a generator of kgs to the Keys of shortener.
type keys struct{ generator kgs.Generator }

var _ shortener.Keys = keys{}

// Next implements [shortener.Keys].
func (k keys) Next(ctx context.Context, url string, attempt int) (shortener.Key, error) {
	key, err := k.generator.Next(ctx, url, attempt)
	if err != nil {
		return shortener.Key{}, fmt.Errorf("%w: %w", shortener.ErrKeysExhausted, err)
	}
	out := shortener.Key{Code: key.Code, Source: key.Source}
	if key.Batch != nil { // an interface that holds a nil pointer is not nil
		out.Batch = key.Batch
	}
	return out, nil
}
