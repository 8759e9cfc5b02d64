package app

import (
	"context"
	"errors"
	"testing"

	"keypool/kgs"
	"keypool/shortener"
)

func TestKeysFallBack(t *testing.T) {
	t.Parallel()
	give := func(source string) kgs.Generator { return said{key: kgs.Key{Code: "abc", Source: source}} }
	refuse := func(err error) kgs.Generator { return said{err: err} }
	broken := errors.New("broken")
	tests := map[string]struct {
		keys   *keys
		source string
		err    error
	}{
		"the local batch comes first":        {&keys{first: give("pool"), fallback: give("random")}, "pool", nil},
		"then the fallback":                  {&keys{first: refuse(kgs.ErrNoKeys), fallback: give("random")}, "random", nil},
		"unless there is none":               {&keys{first: refuse(kgs.ErrNoKeys)}, "", shortener.ErrKeysExhausted},
		"another error is not for it":        {&keys{first: refuse(broken), fallback: give("random")}, "", broken},
		"an error of the fallback is passed": {&keys{first: refuse(kgs.ErrNoKeys), fallback: refuse(broken)}, "", broken},
		"and so is why it was asked":         {&keys{first: refuse(kgs.ErrNoKeys), fallback: refuse(broken)}, "", kgs.ErrNoKeys},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := tt.keys.Next(t.Context(), "https://go.dev", 0)
			if key.Source != tt.source || !errors.Is(err, tt.err) {
				t.Errorf("Next = %+v, %v", key, err)
			}
			if key.Batch != nil {
				t.Error("a key without accounting has a batch")
			}
		})
	}
}

// A hash of one URL may meet conflicts until it gives up. That is no reason to say that keys come from elsewhere.
func TestKeysAreDryAtTheFirstAttemptOnly(t *testing.T) {
	t.Parallel()
	k := &keys{first: said{err: kgs.ErrNoKeys}, fallback: said{key: kgs.Key{Code: "abc", Source: "random"}}}
	for _, attempt := range []int{1000, 0} {
		if key, err := k.Next(t.Context(), "https://go.dev", attempt); key.Source != "random" || err != nil {
			t.Errorf("attempt %d: Next = %+v, %v", attempt, key, err)
		}
		if k.dry.Load() != (attempt == 0) {
			t.Errorf("dry after attempt %d: %v", attempt, k.dry.Load())
		}
	}
}

// said is a generator that has one thing to say.
type said struct {
	key kgs.Key
	err error
}

func (s said) Next(context.Context, string, int) (kgs.Key, error) { return s.key, s.err }

// The two domains do not know each other and yet speak of the same random keys.
func TestBothDomainsNameRandomKeysAlike(t *testing.T) {
	t.Parallel()
	if kgs.SourceRandom != shortener.SourceRandom {
		t.Errorf("kgs says %q, shortener says %q", kgs.SourceRandom, shortener.SourceRandom)
	}
}
