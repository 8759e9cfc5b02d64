package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"keypool/shortener"
)

// WithIdempotencyKey returns a link whose creation has an idempotency key.
func WithIdempotencyKey(code, key string, payload byte) shortener.Link {
	l := Owned(code, 7)
	l.IdempotencyKey = &shortener.IdempotencyKey{Owner: 7, Key: key, Payload: [32]byte{payload}}
	return l
}

func wantFirst(t *testing.T, s shortener.Store, key, code string, payload byte) {
	t.Helper()
	first, err := s.FirstCreation(t.Context(), 7, key)
	want := shortener.FirstCreation{Code: code, Payload: [32]byte{payload}, CreatedAt: lookup(t, s, code).CreatedAt}
	if err != nil || first != want {
		t.Errorf("FirstCreation of %q: %v, %v, want %v", key, first, err, want)
	}
}

// testIdempotencyKeys inserts links with the same idempotency key, in one call and in several calls.
func testIdempotencyKeys(t *testing.T, s shortener.Store) {
	Insert(t, s, Link("taken"))
	WantOutcomes(t, Insert(t, s, WithIdempotencyKey("aaa", "1", 1), Link("bbb"), WithIdempotencyKey("c-c", "1", 2), WithIdempotencyKey("taken", "2", 1), WithIdempotencyKey("ddd", "3", 1), WithIdempotencyKey("taken", "4", 1)),
		shortener.Inserted, shortener.Inserted, shortener.Repeated, shortener.Conflict, shortener.Inserted, shortener.Conflict)
	wantFirst(t, s, "1", "aaa", 1)
	wantFirst(t, s, "3", "ddd", 1)
	for _, key := range []string{"2", "4"} {
		if _, err := s.FirstCreation(t.Context(), 7, key); !errors.Is(err, shortener.ErrNotFound) {
			t.Errorf("FirstCreation of the key of a link in conflict: %v, want ErrNotFound", err)
		}
	}
	if _, err := s.Lookup(t.Context(), "c-c"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup of a repeated creation: %v, want ErrNotFound", err)
	}
	WantOutcomes(t, Insert(t, s, WithIdempotencyKey("eee", "1", 1)), shortener.Repeated)
	WantOutcomes(t, Insert(t, s, WithIdempotencyKey("aaa", "1", 1)), shortener.Present) // the repetition of an Insert
	WantOutcomes(t, Insert(t, s, WithIdempotencyKey("fff", "2", 1)), shortener.Inserted)
	// Another request may create an equal link in the same microsecond. This link does not belong to the idempotency key.
	Insert(t, s, Owned("hhh", 7))
	for range 2 {
		WantOutcomes(t, Insert(t, s, WithIdempotencyKey("hhh", "5", 1)), shortener.Conflict)
	}
	if _, err := s.FirstCreation(t.Context(), 7, "5"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("FirstCreation of the key of a link that another creation inserted: %v, want ErrNotFound", err)
	}
	other := WithIdempotencyKey("ggg", "1", 1)
	other.IdempotencyKey.Owner = 8
	WantOutcomes(t, Insert(t, s, other), shortener.Inserted)
}

// testIdempotencyKeyIsForgotten checks that a key can be used again after IdempotencyKeyLifetime, and that ForgetKeys removes old keys.
func testIdempotencyKeyIsForgotten(t *testing.T, s shortener.Store) {
	Insert(t, s, WithIdempotencyKey("aaa", "1", 1), WithIdempotencyKey("bbb", "2", 1))
	late := func(code, key string, after time.Duration) shortener.Link {
		l := WithIdempotencyKey(code, key, 2)
		l.CreatedAt = l.CreatedAt.Add(after)
		return l
	}
	WantOutcomes(t, Insert(t, s, late("ccc", "1", shortener.IdempotencyKeyLifetime)), shortener.Repeated)
	WantOutcomes(t, Insert(t, s, late("ddd", "1", shortener.IdempotencyKeyLifetime+time.Second)), shortener.Inserted)
	wantFirst(t, s, "1", "ddd", 2)
	for _, want := range []int{1, 0} {
		if n, err := s.ForgetKeys(t.Context(), Moment().Add(time.Second), 10); err != nil || n != want {
			t.Errorf("ForgetKeys removed %d keys, %v, want %d", n, err, want)
		}
	}
	if _, err := s.FirstCreation(t.Context(), 7, "2"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("FirstCreation of a key that was removed: %v", err)
	}
}

// testConcurrentIdempotencyKeys inserts links with the same idempotency keys concurrently and in
// different orders. Exactly one link must be inserted for each key.
func testConcurrentIdempotencyKeys(t *testing.T, s shortener.Store) {
	const keys = 40
	got := insertConcurrently(t, s, func(w int) (links []shortener.Link) {
		for i := range keys {
			links = append(links, WithIdempotencyKey(fmt.Sprintf("c%d-%d", w, i), fmt.Sprint((i+w*keys/concurrentWriters)%keys), 1))
		}
		return links
	})
	if got != keys {
		t.Errorf("%d links were inserted for %d idempotency keys", got, keys)
	}
}
