package kgstest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/kgs"
)

// codeShape matches the codes that a key source may make: base62 or base64url, and at most as long
// as a code of the key source uuid.
var codeShape = regexp.MustCompile(`^[0-9A-Za-z_-]{3,22}$`)

// TestGenerator is the conformance suite for generators that make a different code for each
// creation, or for each URL. All generators that newGenerator returns must share their counter or
// their other state, like the generators of several processes.
func TestGenerator(t *testing.T, newGenerator func(t *testing.T) kgs.Generator) {
	t.Helper()
	t.Run("concurrent calls return different codes", func(t *testing.T) {
		t.Parallel()
		keys := drawAtOnce(t, newGenerator(t), newGenerator(t))
		if t.Failed() {
			return
		}
		if n := repeated(keys); n > 0 {
			t.Errorf("%d of %d codes occurred before", n, len(keys))
		}
		for _, k := range keys {
			if !codeShape.MatchString(k.Code) || k.Source != keys[0].Source || k.Source == "" {
				t.Errorf("the key %+v has an invalid code, or its source is not %q", k, keys[0].Source)
			}
		}
	})
	t.Run("cancelled calls open no circuit breaker", func(t *testing.T) {
		t.Parallel()
		g := newGenerator(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			if _, err := g.Next(ctx, "https://go.dev/", 0); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Next with a cancelled context: %v", err)
			}
		}
		// A cancelled call must not open a circuit breaker, because a cancellation is no sign of a failure.
		if _, err := g.Next(t.Context(), "https://go.dev/", 0); errors.Is(err, gobreaker.ErrOpenState) {
			t.Errorf("Next after cancelled calls: %v", err)
		}
	})
}

// drawAtOnce draws keys in 32 concurrent goroutines. Each draw has another URL, and each goroutine
// uses the generators in turn.
func drawAtOnce(t *testing.T, generators ...kgs.Generator) []kgs.Key {
	t.Helper()
	const takers, turns = 32, 100
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	keys := make([]kgs.Key, takers*turns)
	var group sync.WaitGroup
	for taker := range takers {
		group.Go(func() {
			for turn := range turns {
				i := taker*turns + turn
				var err error
				keys[i], err = draw(ctx, generators[i%len(generators)], fmt.Sprintf("https://go.dev/%d", i))
				if err != nil {
					t.Errorf("Next: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	return keys
}

// draw draws a key. If the generator has no key, which may happen on a busy machine, draw tries
// again.
func draw(ctx context.Context, g kgs.Generator, url string) (kgs.Key, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		k, err := g.Next(ctx, url, 0)
		if !errors.Is(err, kgs.ErrNoKeys) || ctx.Err() != nil {
			return k, err
		}
		<-tick.C
	}
}

// repeated counts the keys that have the same code as an earlier key.
func repeated(keys []kgs.Key) (n int) {
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		if seen[k.Code] {
			n++
		}
		seen[k.Code] = true
	}
	return n
}
