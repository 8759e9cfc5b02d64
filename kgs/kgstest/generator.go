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

// codeShape is what the link store takes for a code: base62 or base64url, no longer than
// a UUID.
var codeShape = regexp.MustCompile(`^[0-9A-Za-z_-]{3,22}$`)

// TestGenerator is what every generator has to pass that promises codes of its own: to
// each creation or, where it looks at the URL, to each URL. All that newGenerator makes
// draw on the same thing, as several processes do.
func TestGenerator(t *testing.T, newGenerator func(t *testing.T) kgs.Generator) {
	t.Helper()
	t.Run("unique", func(t *testing.T) {
		t.Parallel()
		keys := drawAtOnce(t, newGenerator(t), newGenerator(t))
		if t.Failed() {
			return
		}
		if n := repeated(keys); n > 0 {
			t.Errorf("%d of %d codes were given before", n, len(keys))
		}
		for _, k := range keys {
			if !codeShape.MatchString(k.Code) || k.Source != keys[0].Source || k.Source == "" {
				t.Errorf("%+v is no key of %q", k, keys[0].Source)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		g := newGenerator(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			if _, err := g.Next(ctx, "https://go.dev/", 0); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Next without time: %v", err)
			}
		}
		// That nobody waited for them says nothing of what the generator draws on.
		if _, err := g.Next(t.Context(), "https://go.dev/", 0); errors.Is(err, gobreaker.ErrOpenState) {
			t.Errorf("Next after others had no time: %v", err)
		}
	})
}

// drawAtOnce lets 32 takers draw side by side, each for URLs of its own, from one generator
// after the other.
func drawAtOnce(t *testing.T, generators ...kgs.Generator) []kgs.Key {
	t.Helper()
	const takers, turns = 32, 100
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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

// draw asks again where a generator has nothing to give just now, as on a busy machine.
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

// repeated counts the keys whose code an earlier one has.
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
