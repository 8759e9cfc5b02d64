package kgs

import (
	"context"
	"errors"
	"testing"
)

func TestFallbackUsesSecondGeneratorOnlyAfterErrNoKeys(t *testing.T) {
	t.Parallel()
	give := func(source string) Generator { return fixedGenerator{key: Key{Code: "abc", Source: source}} }
	refuse := func(err error) Generator { return fixedGenerator{err: err} }
	broken := errors.New("broken")
	tests := map[string]struct {
		keys   *Fallback
		source string
		err    error
	}{
		"the first generator has a key":                                  {NewFallback(give("pool"), give("random")), "pool", nil},
		"the first generator has no key":                                 {NewFallback(refuse(ErrNoKeys), give("random")), "random", nil},
		"there is no fallback":                                           {NewFallback(refuse(ErrNoKeys), nil), "", ErrNoKeys},
		"another error of the first generator does not use the fallback": {NewFallback(refuse(broken), give("random")), "", broken},
		"the error contains the error of the fallback":                   {NewFallback(refuse(ErrNoKeys), refuse(broken)), "", broken},
		"the error contains the error of the first generator":            {NewFallback(refuse(ErrNoKeys), refuse(broken)), "", ErrNoKeys},
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

// After conflicts, the hash source may have no more codes for one URL. It still has codes for other
// URLs. Therefore a later attempt that finds no key must not make Dry return true.
func TestDryReturnsTrueOnlyIfFirstAttemptFindsNoKey(t *testing.T) {
	t.Parallel()
	k := NewFallback(fixedGenerator{err: ErrNoKeys}, fixedGenerator{key: Key{Code: "abc", Source: "random"}})
	for _, attempt := range []int{1000, 0} {
		if key, err := k.Next(t.Context(), "https://go.dev", attempt); key.Source != "random" || err != nil {
			t.Errorf("attempt %d: Next = %+v, %v, want a key of the fallback", attempt, key, err)
		}
		if k.Dry() != (attempt == 0) {
			t.Errorf("after attempt %d, Dry() = %v, want true only after attempt 0", attempt, k.Dry())
		}
	}
}

// A probe notices that the first generator has keys again. If Dry returns false, Probe does not call the
// first generator.
func TestDryReturnsFalseAfterSuccessfulProbe(t *testing.T) {
	t.Parallel()
	first := &countingGenerator{err: ErrNoKeys}
	k := NewFallback(first, fixedGenerator{key: Key{Code: "abc", Source: "random"}})
	k.Probe(t.Context())
	if first.calls != 0 {
		t.Errorf("a probe before the first key makes %d calls, want 0", first.calls)
	}
	if _, err := k.Next(t.Context(), "https://go.dev", 0); err != nil {
		t.Error(err)
	}
	if k.Probe(t.Context()); !k.Dry() {
		t.Error("Dry() = false after a probe that failed")
	}
	first.err = nil
	for range 2 {
		if k.Probe(t.Context()); k.Dry() {
			t.Error("Dry() = true after a probe that succeeded")
		}
	}
	if first.calls != 3 {
		t.Errorf("%d calls of the first generator, want 3: a key and two probes", first.calls)
	}
}

// countingGenerator is a generator that counts the calls of Next.
type countingGenerator struct {
	calls int
	err   error
}

func (c *countingGenerator) Next(context.Context, string, int) (Key, error) {
	c.calls++
	return Key{Code: "abc", Source: "first"}, c.err
}

// fixedGenerator is a generator that always returns the same key and error.
type fixedGenerator struct {
	key Key
	err error
}

func (s fixedGenerator) Next(context.Context, string, int) (Key, error) { return s.key, s.err }
