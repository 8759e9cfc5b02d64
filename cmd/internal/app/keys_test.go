package app

import (
	"context"
	"errors"
	"testing"

	"keypool/kgs"
)

func TestKeysFallBack(t *testing.T) {
	t.Parallel()
	give := func(source string) kgs.Generator { return fixed{key: kgs.Key{Code: "abc", Source: source}} }
	refuse := func(err error) kgs.Generator { return fixed{err: err} }
	broken := errors.New("broken")
	tests := map[string]struct {
		keys   *keys
		source string
		err    error
	}{
		"local batch first":              {&keys{first: give("pool"), fallback: give("random")}, "pool", nil},
		"fallback after it":              {&keys{first: refuse(kgs.ErrNoKeys), fallback: give("random")}, "random", nil},
		"no fallback":                    {&keys{first: refuse(kgs.ErrNoKeys)}, "", kgs.ErrNoKeys},
		"other errors are not masked":    {&keys{first: refuse(broken), fallback: give("random")}, "", broken},
		"error of the fallback":          {&keys{first: refuse(kgs.ErrNoKeys), fallback: refuse(broken)}, "", broken},
		"error that led to the fallback": {&keys{first: refuse(kgs.ErrNoKeys), fallback: refuse(broken)}, "", kgs.ErrNoKeys},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := tt.keys.Next(t.Context(), "https://go.dev", 0)
			if key.Source != tt.source || !errors.Is(err, tt.err) {
				t.Errorf("Next = %+v, %v", key, err)
			}
		})
	}
}

// A hash of one URL may run out of codes after conflicts. The server then still serves from its key
// source.
func TestOnlyFirstAttemptsMarkKeysDry(t *testing.T) {
	t.Parallel()
	k := &keys{first: fixed{err: kgs.ErrNoKeys}, fallback: fixed{key: kgs.Key{Code: "abc", Source: "random"}}}
	for _, attempt := range []int{1000, 0} {
		if key, err := k.Next(t.Context(), "https://go.dev", attempt); key.Source != "random" || err != nil {
			t.Errorf("attempt %d: Next = %+v, %v", attempt, key, err)
		}
		if k.dry.Load() != (attempt == 0) {
			t.Errorf("dry after attempt %d: %v", attempt, k.dry.Load())
		}
	}
}

// fixed is a generator that always returns the same.
type fixed struct {
	key kgs.Key
	err error
}

func (s fixed) Next(context.Context, string, int) (kgs.Key, error) { return s.key, s.err }
