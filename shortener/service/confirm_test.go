package service_test

import (
	"context"
	"errors"
	"testing"

	"keypool/shortener"
	"keypool/shortener/service"
)

// unconfirmedStore is a store whose method Change fails while unconfirmed is true, like a database whose synchronous standby
// does not answer.
type unconfirmedStore struct {
	shortener.Store
	unconfirmed bool
}

var errUnconfirmed = errors.New("the standby does not answer")

func (s *unconfirmedStore) Change(ctx context.Context, old, changed shortener.Link) error {
	if s.unconfirmed {
		return errUnconfirmed
	}
	return s.Store.Change(ctx, old, changed)
}

// The change that an earlier request made may not be durable yet. So a request that repeats the change must succeed only after
// the store has confirmed the link, although the repetition changes nothing.
func TestRepeatedRequestSucceedsOnlyIfStoreConfirmsLink(t *testing.T) {
	t.Parallel()
	store := &unconfirmedStore{Store: newStore(t)}
	s := startService(t, service.Config{Store: store})
	alias, admin := "mine", service.Actor{Admin: true}
	if _, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: &alias}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		call func() error
	}{
		{"deletion", func() error { return s.Delete(t.Context(), admin, alias, nil) }},
		{"deletion by a command", func() error { return service.Delete(t.Context(), store, alias, testNow) }},
		{"erasure by a command", func() error { return service.Erase(t.Context(), store, alias, testNow) }},
	} {
		if err := test.call(); err != nil {
			t.Fatalf("first %s: %v", test.name, err)
		}
		store.unconfirmed = true
		if err := test.call(); !errors.Is(err, errUnconfirmed) {
			t.Errorf("%s again, without the standby: %v, want %v", test.name, err, errUnconfirmed)
		}
		store.unconfirmed = false
		if err := test.call(); err != nil {
			t.Errorf("%s again: %v", test.name, err)
		}
	}
}
