package service_test

import (
	"context"
	"testing"

	"keypool/shortener"
	"keypool/shortener/service"
)

// watchfulStore counts the queries whose context has ended.
type watchfulStore struct {
	shortener.Store
	cancelled int
}

func (s *watchfulStore) note(ctx context.Context) {
	if ctx.Err() != nil {
		s.cancelled++
	}
}

func (s *watchfulStore) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	s.note(ctx)
	return s.Store.Lookup(ctx, code)
}

func (s *watchfulStore) Newest(ctx context.Context, selection shortener.Selection) ([]shortener.Link, string, error) {
	s.note(ctx)
	return s.Store.Newest(ctx, selection)
}

// pgx closes the connection of a cancelled query, and a connection that closes still occupies a place in the pool. If
// the service cancelled the queries of a client that leaves, one client could occupy all places.
func TestClientThatLeavesDoesNotCancelQueries(t *testing.T) {
	t.Parallel()
	store := &watchfulStore{Store: newStore(t)}
	s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
	mustCreate(t, s, shortener.Request{URL: "https://go.dev/", Alias: given("mine")})
	admin := service.Actor{Admin: true}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.Find(ctx, admin, "mine"); err != nil {
		t.Errorf("Find: %v", err)
	}
	if links, _, err := s.List(ctx, admin, service.Filter{}, "", 10); err != nil || len(links) != 1 {
		t.Errorf("List returns %d links and the error %v", len(links), err)
	}
	if _, err := s.Change(ctx, admin, "mine", shortener.Patch{}); err != nil {
		t.Errorf("Change: %v", err)
	}
	if free := s.Suggest(ctx, "mine"); len(free) == 0 {
		t.Error("Suggest returns no alias")
	}
	if _, err := s.Resolve(ctx, "other"); err == nil {
		t.Error("an unknown code resolves")
	}
	if store.cancelled > 0 {
		t.Errorf("%d queries had a context that has ended", store.cancelled)
	}
}

// leftStore is a store whose client leaves during the first page.
type leftStore struct {
	shortener.Store
	leave func()
	pages int
}

func (s *leftStore) Newest(ctx context.Context, selection shortener.Selection) ([]shortener.Link, string, error) {
	s.pages++
	s.leave()
	links, _, err := s.Store.Newest(ctx, selection)
	return links, "more", err
}

// A search for links ends when the client leaves, even if no link matches.
func TestSearchEndsWhenClientLeaves(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	store := &leftStore{Store: newStore(t), leave: leave}
	s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
	mustCreate(t, s, shortener.Request{URL: "https://go.dev/", Alias: given("mine")})
	admin, none := service.Actor{Admin: true}, service.Filter{Tag: "none"}
	if _, _, err := s.List(ctx, admin, none, "", 10); err != nil || store.pages != 1 {
		t.Errorf("List: %d pages, %v; want 1 page", store.pages, err)
	}
	store.pages = 0
	var last error
	for _, err := range s.All(ctx, admin, none) {
		last = err
	}
	if store.pages != 1 {
		t.Errorf("All: %d pages, want 1", store.pages)
	}
	assertUnavailable(t, last, context.Canceled)
}
