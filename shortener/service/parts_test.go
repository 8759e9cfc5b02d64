package service_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"keypool/shortener"
	"keypool/shortener/service"
)

// halves is a store with two parts. Part 0 has the codes with an even last digit, and part 1 has the
// codes with an odd last digit.
type halves struct {
	shortener.Store
	off [2]atomic.Bool // whether the part does not answer
}

func (h *halves) PartOf(code string) (part int, answers bool) {
	part = int(code[len(code)-1]) % 2
	return part, !h.off[part].Load()
}

func (h *halves) PartOfRequest(key string) (part int, answers bool) { return h.PartOf(key) }

func (h *halves) Answers(fits func(part int) bool) bool {
	for part := range h.off {
		if !h.off[part].Load() && (fits == nil || fits(part)) {
			return true
		}
	}
	return false
}

func (h *halves) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	if _, answers := h.PartOf(code); !answers {
		return shortener.Link{}, errDown
	}
	return h.Store.Lookup(ctx, code)
}

// If the part of an alias does not answer, the creation fails, but the service stays ready. If no
// part answers, a creation fails without drawing a key.
func TestCreationFailsAtOnceIfItsStorePartDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := &halves{Store: newStore(t)}
	var drawn int
	s := startService(t, service.Config{Store: h, Placement: h, Keys: keysFunc(func(context.Context, string, int) (shortener.Key, error) {
		drawn++
		return shortener.Key{}, shortener.ErrKeysExhausted
	})})
	h.off[1].Store(true)
	_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: given("alias1")})
	assertUnavailable(t, err, shortener.ErrNotWritten)
	_, _, _, err = s.CreateIdempotent(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: given("alias2")}, "key1")
	assertUnavailable(t, err, shortener.ErrNotWritten) // the part of the idempotency key does not answer
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("the service is not ready: %v", err)
	}
	h.off[0].Store(true)
	var unavailable *shortener.UnavailableError
	if _, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"}); !errors.As(err, &unavailable) || drawn > 0 {
		t.Errorf("a creation while no part answers: error %v, and %d keys were drawn", err, drawn)
	}
}

// After a look-up in one part has failed, the cache still asks the other part.
func TestCacheAsksStorePartThatAnswersWhileOtherPartIsDown(t *testing.T) {
	t.Parallel()
	now := testNow
	h := &halves{Store: newStore(t)}
	s := startService(t, service.Config{Store: h, Placement: h, Now: func() time.Time { return now }})
	even, odd := "alias2", "alias3"
	for _, alias := range []string{even, odd} {
		mustCreate(t, s, shortener.Request{URL: "https://go.dev/", Alias: &alias})
	}
	h.off[1].Store(true)
	now = now.Add(service.Freshness)
	if _, err := s.Resolve(t.Context(), odd); err != nil { // the cache returns its older answer
		t.Errorf("a link in the cache: %v", err)
	}
	if err := service.Delete(t.Context(), h.Store, even, now); err != nil {
		t.Fatal(err)
	}
	assertFails(t, s, even, shortener.ErrGone)
}
