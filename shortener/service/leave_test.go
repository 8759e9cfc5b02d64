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

// A query that is cancelled costs a connection to PostgreSQL. If clients that leave cancelled their queries, one client could
// occupy all connections.
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
