package server

import (
	"context"
	"errors"
	"testing"

	"keypool/kgs"
	"keypool/shortener"
)

// fixed is a generator that always returns the same key and error.
type fixed struct {
	key kgs.Key
	err error
}

func (f fixed) Next(context.Context, string, int) (kgs.Key, error) { return f.key, f.err }

func TestKeysAdapterPassesKeyAndWrapsError(t *testing.T) {
	t.Parallel()
	key, err := keys{fixed{key: kgs.Key{Code: "abc", Source: "pool"}}}.Next(t.Context(), "https://go.dev", 0)
	if err != nil || key.Code != "abc" || key.Source != "pool" {
		t.Errorf("Next = %+v, %v", key, err)
	}
	if key.Batch != nil {
		t.Error("Next returned a batch for a key that has none")
	}
	for _, cause := range []error{kgs.ErrNoKeys, errors.New("broken")} {
		_, err = keys{fixed{err: cause}}.Next(t.Context(), "https://go.dev", 0)
		if !errors.Is(err, shortener.ErrKeysExhausted) || !errors.Is(err, cause) {
			t.Errorf("Next after %v: %v; want ErrKeysExhausted and the cause", cause, err)
		}
	}
}

// Packages kgs and shortener do not import each other but must use the same name for random keys.
func TestPackagesKGSAndShortenerUseSameNameForRandomKeys(t *testing.T) {
	t.Parallel()
	if kgs.SourceRandom != shortener.SourceRandom {
		t.Errorf("package kgs calls random keys %q, package shortener calls them %q", kgs.SourceRandom, shortener.SourceRandom)
	}
}
