package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// The pages of a list contain the links that the filter selects, in the order of the whole
// list. If few links match, List nevertheless needs few queries.
func TestListFindsFewMatchingLinksWithFewQueries(t *testing.T) {
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
	for links, err := range s.All(t.Context(), admin, filter) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			want = append(want, l.Code)
		}
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
				t.Fatalf("List with the limit %d: %d links, error %v", limit, len(page), err)
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

// idleStore is a store whose method Newest takes some time and returns no links.
type idleStore struct {
	shortener.Store
	running atomic.Int64
	most    atomic.Int64 // maximum number of calls of Newest at the same time
	take    time.Duration
}

func (s *idleStore) Newest(context.Context, shortener.Selection) ([]shortener.Link, string, error) {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	defer s.running.Add(-1)
	time.Sleep(s.take)
	return nil, "", nil
}

// One token cannot occupy all slots for reads with its calls of List and All and its queries for
// visits.
func TestOneTokenCannotOccupyAllReadSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &idleStore{Store: newStore(t), take: 1500 * time.Millisecond}
		s := startService(t, service.Config{Store: store, Keys: sequence("pool"), Readers: 4})
		busy := service.Actor{Token: 1}
		refused := make(chan error, 100)
		for range cap(refused) {
			go func() {
				_, _, err := s.List(context.Background(), busy, service.Filter{}, "", 1)
				refused <- err
			}()
		}
		synctest.Wait()
		if _, _, err := s.List(t.Context(), service.Actor{Token: 2}, service.Filter{}, "", 1); err != nil {
			t.Errorf("the list of another token: %v", err)
		}
		lists := 0
		for range cap(refused) {
			if err := <-refused; err == nil {
				lists++
			} else {
				assertUnavailable(t, err, context.DeadlineExceeded)
			}
		}
		if most := store.most.Load(); lists != 2 || most != 3 {
			t.Errorf("%d lists of the token succeeded, and %d lists ran at the same time; want 2 and 3", lists, most)
		}
		for range 2 {
			end, err := s.BeginRead(t.Context(), busy)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(5*time.Second, end)
		}
		_, err := s.BeginRead(t.Context(), busy)
		assertUnavailable(t, err, context.DeadlineExceeded)
		for _, err := range s.All(t.Context(), busy, service.Filter{}) { // All waits longer than List
			if err != nil {
				t.Errorf("All: %v", err)
			}
		}
	})
}

// A page of links with long texts ends early, and the pages contain each link once.
func TestListEndsPageWithLongTextsEarly(t *testing.T) {
	t.Parallel()
	const links, length = 1000, 2000
	store := newStore(t)
	s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
	group := make([]shortener.Link, links)
	for i := range group {
		group[i] = shortener.Link{
			Code: fmt.Sprintf("code%d", i), URL: "https://go.dev/" + strings.Repeat("a", length), Source: "pool", CreatedAt: testNow,
			Details: &shortener.Details{Owner: 1, Version: 1, Tags: []string{"long"}},
		}
		// The list begins with this second half of the links, because they are the newest. None of them has the tag, so
		// List reads more links at a time. In the first half, List must read fewer links at a time again.
		if i >= links/2 {
			group[i].Details.Tags = nil
		}
	}
	for part := range slices.Chunk(group, 500) {
		if _, err := store.Insert(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	for _, filter := range []service.Filter{{}, {Tag: "long"}} {
		found := make(map[string]bool)
		for from := ""; ; {
			page, next, err := s.List(t.Context(), service.Actor{Admin: true}, filter, from, service.MaxList)
			if err != nil {
				t.Fatal(err)
			}
			if bytes := len(page) * length; bytes > 750<<10 {
				t.Errorf("a page has %d links with %d bytes", len(page), bytes)
			}
			for i := range page {
				if found[page[i].Code] {
					t.Errorf("two pages have the link %s", page[i].Code)
				}
				found[page[i].Code] = true
			}
			if from = next; from == "" {
				break
			}
		}
		if want := map[string]int{"": links, "long": links / 2}[filter.Tag]; len(found) != want {
			t.Errorf("with the tag %q, the pages have %d links, want %d", filter.Tag, len(found), want)
		}
	}
}

// Slow clients of one token cannot occupy all slots for lists and streams.
func TestSlowClientsOfOneTokenDoNotBlockOtherTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		link := shortener.Link{Code: "code", URL: "https://go.dev/", Source: "pool", CreatedAt: testNow}
		if _, err := store.Insert(t.Context(), []shortener.Link{link}); err != nil {
			t.Fatal(err)
		}
		s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
		slow, other := service.Actor{Token: 1, Admin: true}, service.Actor{Token: 2, Admin: true}
		received := make(chan struct{})
		for range 100 {
			go func() {
				for range s.All(context.Background(), slow, service.Filter{}) {
					<-received
				}
			}()
			go func() {
				if end, err := s.BeginAnswer(context.Background(), slow); err == nil {
					<-received
					end()
				}
			}()
		}
		defer close(received)
		synctest.Wait()
		time.Sleep(time.Minute) // the other requests of the token end
		_, err := s.BeginAnswer(t.Context(), slow)
		assertUnavailable(t, err, context.DeadlineExceeded)
		for _, err := range s.All(t.Context(), slow, service.Filter{}) {
			assertUnavailable(t, err, context.DeadlineExceeded)
		}
		end, err := s.BeginAnswer(t.Context(), other)
		if err != nil {
			t.Fatalf("another token: %v", err)
		}
		end()
		for links, err := range s.All(t.Context(), other, service.Filter{}) {
			if err != nil || len(links) != 1 || links[0].Code != link.Code {
				t.Errorf("the stream of another token: %v, error %v", links, err)
			}
		}
	})
}
