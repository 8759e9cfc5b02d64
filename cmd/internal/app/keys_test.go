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
	give := func(source string) nextKey {
		return func(context.Context) (kgs.Key, error) { return kgs.Key{Code: "abc", Source: source}, nil }
	}
	refuse := func(err error) nextKey {
		return func(context.Context) (kgs.Key, error) { return kgs.Key{}, err }
	}
	broken := errors.New("broken")
	tests := map[string]struct {
		keys   keys
		source string
		err    error
	}{
		"the local batch comes first":        {keys{give("pool"), give("random")}, "pool", nil},
		"then the fallback":                  {keys{refuse(kgs.ErrNoKeys), give("random")}, "random", nil},
		"unless there is none":               {keys{refuse(kgs.ErrNoKeys), nil}, "", shortener.ErrKeysExhausted},
		"another error is not for it":        {keys{refuse(broken), give("random")}, "", broken},
		"an error of the fallback is passed": {keys{refuse(kgs.ErrNoKeys), refuse(broken)}, "", broken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := tt.keys.Next(t.Context(), "https://go.dev", 0)
			if key.Source != tt.source || !errors.Is(err, tt.err) {
				t.Errorf("Next = %+v, %v", key, err)
			}
			if key.Lease != nil {
				t.Error("a key without books has a lease")
			}
		})
	}
}

// The two domains do not know each other and yet speak of the same random keys.
func TestBothDomainsNameRandomKeysAlike(t *testing.T) {
	t.Parallel()
	if kgs.SourceRandom != shortener.SourceRandom {
		t.Errorf("kgs says %q, shortener says %q", kgs.SourceRandom, shortener.SourceRandom)
	}
}
