package service_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/service"
)

// countingStore counts the calls of Newest.
type countingStore struct {
	shortener.Store
	calls atomic.Int64
}

func (s *countingStore) Newest(ctx context.Context, selection shortener.Selection) ([]shortener.Link, string, error) {
	s.calls.Add(1)
	return s.Store.Newest(ctx, selection)
}

// The pages of a list have the links that the filter selects, in the order of the whole list. If few links match, a page needs
// few queries.
func TestListFindsFewLinksAmongMany(t *testing.T) {
	t.Parallel()
	const links, every = 3000, 700
	store := &countingStore{Store: newStore(t)}
	s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
	group := make([]shortener.Link, links)
	for i := range group {
		group[i] = shortener.Link{Code: fmt.Sprintf("code%d", i), URL: "https://go.dev/", Source: "pool", CreatedAt: testNow}
		if i%every < 3 {
			group[i].Details = &shortener.Details{Owner: 1, Version: 1, Tags: []string{"rare"}}
		}
	}
	for part := range slices.Chunk(group, 500) {
		if _, err := store.Insert(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	admin, filter := service.Actor{Admin: true}, service.Filter{Tag: "rare", State: service.StateActive}
	var want []string
	for l, err := range s.All(t.Context(), admin, filter) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, l.Code)
	}
	if len(want) != 15 {
		t.Fatalf("%d links match, want 15", len(want))
	}
	for _, limit := range []int{1, 2, 4, 14, 15, 16, 1000} {
		store.calls.Store(0)
		var got []string
		pages := 0
		for from := ""; ; pages++ {
			page, next, err := s.List(t.Context(), admin, filter, from, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("a page of %d links: %d links, %v", limit, len(page), err)
			}
			for i := range page {
				got = append(got, page[i].Code)
			}
			if from = next; from == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d links (-want +got):\n%s", limit, diff)
		}
		if calls := int(store.calls.Load()); calls > 20*(pages+1) {
			t.Errorf("%d pages of %d links needed %d queries", pages+1, limit, calls)
		}
	}
}
