package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"keypool/kgs"
)

// keys generates the keys of a server. When first has no key, fallback makes one.
type keys struct {
	first    kgs.Generator
	fallback kgs.Generator // nil for none
	dry      atomic.Bool   // first had no key at the latest first attempt of a link
}

var _ kgs.Generator = (*keys)(nil)

// Next implements [kgs.Generator].
func (k *keys) Next(ctx context.Context, url string, attempt int) (kgs.Key, error) {
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
	return key, err
}
