package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"keypool/shortener"
)

// Once returns a link whose creation has an idempotency key.
func Once(code, key string, payload byte) shortener.Link {
	l := Owned(code, 7)
	l.Once = &shortener.Once{Owner: 7, Key: key, Payload: [32]byte{payload}}
	return l
}

func wantFirst(t *testing.T, s shortener.Store, key, code string, payload byte) {
	t.Helper()
	first, err := s.First(t.Context(), 7, key)
	if want := (shortener.First{Code: code, Payload: [32]byte{payload}}); err != nil || first != want {
		t.Errorf("First of %q: %v, %v, want %v", key, first, err, want)
	}
}

// testOnce inserts links with the same idempotency key, in one call and in several calls.
func testOnce(t *testing.T, s shortener.Store) {
	Insert(t, s, Link("taken"))
	WantOutcomes(t, Insert(t, s, Once("aaa", "1", 1), Link("bbb"), Once("c-c", "1", 2), Once("taken", "2", 1), Once("ddd", "3", 1), Once("taken", "4", 1)),
		shortener.Inserted, shortener.Inserted, shortener.Repeated, shortener.Conflict, shortener.Inserted, shortener.Conflict)
	wantFirst(t, s, "1", "aaa", 1)
	wantFirst(t, s, "3", "ddd", 1)
	for _, key := range []string{"2", "4"} {
		if _, err := s.First(t.Context(), 7, key); !errors.Is(err, shortener.ErrNotFound) {
			t.Errorf("First of the key of a link in conflict: %v, want ErrNotFound", err)
		}
	}
	if _, err := s.Lookup(t.Context(), "c-c"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup of a repeated creation: %v, want ErrNotFound", err)
	}
	WantOutcomes(t, Insert(t, s, Once("eee", "1", 1)), shortener.Repeated)
	WantOutcomes(t, Insert(t, s, Once("aaa", "1", 1)), shortener.Present) // the repetition of an Insert
	WantOutcomes(t, Insert(t, s, Once("fff", "2", 1)), shortener.Inserted)
	other := Once("ggg", "1", 1)
	other.Once.Owner = 8
	WantOutcomes(t, Insert(t, s, other), shortener.Inserted)
}

// testOnceIsForgotten checks that a key can be used again after OnceMemory, and that ForgetKeys removes old keys.
func testOnceIsForgotten(t *testing.T, s shortener.Store) {
	Insert(t, s, Once("aaa", "1", 1), Once("bbb", "2", 1))
	late := func(code, key string, after time.Duration) shortener.Link {
		l := Once(code, key, 2)
		l.CreatedAt = l.CreatedAt.Add(after)
		return l
	}
	WantOutcomes(t, Insert(t, s, late("ccc", "1", shortener.OnceMemory)), shortener.Repeated)
	WantOutcomes(t, Insert(t, s, late("ddd", "1", shortener.OnceMemory+time.Second)), shortener.Inserted)
	wantFirst(t, s, "1", "ddd", 2)
	for _, want := range []int{1, 0} {
		if n, err := s.ForgetKeys(t.Context(), Moment().Add(time.Second), 10); err != nil || n != want {
			t.Errorf("ForgetKeys removed %d keys, %v, want %d", n, err, want)
		}
	}
	if _, err := s.First(t.Context(), 7, "2"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("First of a key that was removed: %v", err)
	}
}

// testConcurrentOnce inserts links with the same idempotency keys concurrently and in
// different orders. Exactly one link must be inserted for each key.
func testConcurrentOnce(t *testing.T, s shortener.Store) {
	const keys = 40
	got := insertConcurrently(t, s, func(w int) (links []shortener.Link) {
		for i := range keys {
			links = append(links, Once(fmt.Sprintf("c%d-%d", w, i), fmt.Sprint((i+w*keys/concurrentWriters)%keys), 1))
		}
		return links
	})
	if got != keys {
		t.Errorf("%d links were inserted for %d idempotency keys", got, keys)
	}
}
