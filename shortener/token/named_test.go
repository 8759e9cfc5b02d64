package token

import (
	"errors"
	"testing"
	"time"

	"keypool/shortener/storetest"
)

// Named returns the valid token, although a revoked token has the same name.
func TestLookupByNameFindsValidTokenIfRevokedTokenHasSameName(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		former, _ := create(t, s, ordinary("alice"))
		if err := s.Revoke(t.Context(), former.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		limited := ordinary("bob")
		limited.ExpiresAt = storetest.Moment().Add(time.Hour)
		bob, _ := create(t, s, limited)
		w := watch(t, s)
		w.wantNamed("alice", Token{}, ErrUnknown)
		w.wantNamed("Bob", Token{}, ErrUnknown)
		w.wantNamed("bob", bob, nil)
		alice, _ := create(t, s, ordinary("alice")) // valid at once
		w.wantNamed("alice", alice, nil)
		w.wantValid("alice", "bob")

		w.clock.Store(limited.ExpiresAt.UnixNano())
		w.wantNamed("bob", Token{}, ErrExpired)
		w.wantValid("alice")
		if _, err := s.Renew(t.Context(), bob.ID, time.Time{}); err != nil {
			t.Fatal(err)
		}
		bob.ExpiresAt = time.Time{}
		w.wantNamed("bob", bob, nil) // valid at once
		if err := s.Revoke(t.Context(), bob.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		if err := s.Revoke(t.Context(), alice.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		w.awaitSuccess()
		w.wantNamed("alice", Token{}, ErrUnknown)
		w.wantValid()
	})
}

func (w *watched) wantNamed(name string, token Token, want error) {
	w.t.Helper()
	got, err := w.patiently(want, func() (Token, error) { return w.Named(w.t.Context(), name) })
	got.LastUsedAt = token.LastUsedAt // the recorder may have stored the use
	if !errors.Is(err, want) || got != token {
		w.t.Errorf("Named(%q) = %+v, %v; want %+v, %v", name, got, err, token, want)
	}
}

func (w *watched) wantValid(names ...string) {
	w.t.Helper()
	valid := w.Valid()
	if len(valid) != len(names) {
		w.t.Fatalf("valid tokens: %+v, want %q", valid, names)
	}
	for i, name := range names {
		if valid[i].Name != name {
			w.t.Errorf("valid tokens: %+v, want %q", valid, names)
		}
	}
}
