package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/service"
)

func TestServiceResolvesCreatedLinks(t *testing.T) {
	t.Parallel()
	s, store := newService(t, sequence("pool"))
	for _, r := range []shortener.Request{
		{URL: "https://go.dev/a b"},
		{URL: "https://go.dev/", Alias: given("mine")},
		{URL: "https://go.dev/", ExpiresIn: given("36h")},
	} {
		link := mustCreate(t, s, r)
		assertResolves(t, s, link)
		// Another process finds the link in the store.
		assertResolves(t, startService(t, service.Config{Store: store}), link)
	}
	_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", ExpiresAt: given("2999-01-01T00:00:00Z")})
	assertInvalid(t, err, "expires_at", "100 years")
	assertFails(t, s, "unknown", shortener.ErrNotFound)
}

func TestServiceResolvesItsNewLinksWithoutLookup(t *testing.T) {
	t.Parallel()
	s := startService(t, service.Config{
		Store: &faultyStore{Store: newStore(t), lookup: func(context.Context, string) (shortener.Link, error) {
			return shortener.Link{}, shortener.ErrNotFound // as a store that lacks the newest links would
		}},
		Keys: sequence("pool"),
	})
	assertFails(t, s, "pool00", shortener.ErrNotFound)
	link := mustCreate(t, s, shortener.Request{URL: "https://go.dev/"})
	if link.Code != "pool00" {
		t.Fatalf("the code is %q, want pool00, which was looked up before", link.Code)
	}
	assertResolves(t, s, link)
}

func TestServiceDoesNotResolveExpiredLinks(t *testing.T) {
	t.Parallel()
	now := testNow
	s := startService(t, service.Config{Store: newStore(t), Keys: sequence("pool"), Now: func() time.Time { return now }})
	link := mustCreate(t, s, shortener.Request{URL: "https://go.dev/", ExpiresIn: given("1.5")})
	want := shortener.Link{
		Code: "pool00", URL: "https://go.dev/", Source: "pool",
		CreatedAt: service.Stamp(now), ExpiresAt: service.Stamp(now).Add(3 * time.Second / 2),
	}
	if diff := cmp.Diff(want, link); diff != "" {
		t.Fatalf("the new link (-want +got):\n%s", diff)
	}
	now = link.ExpiresAt.Add(-1)
	assertResolves(t, s, link)
	now = link.ExpiresAt
	assertFails(t, s, link.Code, shortener.ErrGone)
	now = now.Add(time.Hour)
	assertFails(t, s, link.Code, shortener.ErrGone)
}

func TestReadyReturnsResultOfLastPing(t *testing.T) {
	t.Parallel()
	s, store := newService(t, nil)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready on a store that answers: %v", err)
	}
	down := startService(t, service.Config{Store: &faultyStore{Store: store, ping: func(context.Context) error { return errDown }}})
	for range 2 { // the second call returns the failure of the first ping
		assertUnavailable(t, down.Ready(t.Context()), errDown)
	}
}

func TestReadyPingsAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	var pings atomic.Int64
	now := testNow
	s := startService(t, service.Config{Now: func() time.Time { return now }, Store: &faultyStore{ping: func(ctx context.Context) error {
		pings.Add(1)
		return ctx.Err()
	}}})
	ended, cancel := context.WithCancel(t.Context())
	cancel() // a context that has ended must not end the ping
	for second := range int64(3) {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if err := s.Ready(ended); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := pings.Load(); n != second+1 {
			t.Errorf("the store got %d pings within %d s, want %d", n, second, second+1)
		}
		now = now.Add(time.Second)
	}
}

func TestReadyFailsWhenTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startService(t, service.Config{Store: &faultyStore{ping: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}})
		start := time.Now()
		if err := s.Ready(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want DeadlineExceeded", err)
		}
		if waited := time.Since(start); waited != service.PingTimeout {
			t.Errorf("Ready took %v, want %v", waited, service.PingTimeout)
		}
	})
}

// If all codes of one URL are in use, the service stays ready, because other links can be
// created.
func TestServiceStaysReadyIfOneURLHasNoFreeCode(t *testing.T) {
	t.Parallel()
	s := startService(t, service.Config{
		Store: &faultyStore{
			insert: func(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
				return slices.Repeat([]shortener.Outcome{shortener.Conflict}, len(links)), nil
			},
			ping: func(context.Context) error { return nil },
		},
		Keys: keysFunc(func(_ context.Context, _ string, attempt int) (shortener.Key, error) {
			if attempt > 0 {
				return shortener.Key{}, shortener.ErrKeysExhausted
			}
			return shortener.Key{Code: "used", Source: "hash"}, nil
		}),
	})
	_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"})
	assertUnavailable(t, err, shortener.ErrKeysExhausted)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// An alias may belong to a row that cannot be decoded. Other creations succeed.
func TestServiceStaysReadyIfRowOfAliasIsDamaged(t *testing.T) {
	t.Parallel()
	store := &faultyStore{
		Store: newStore(t),
		insert: func(context.Context, []shortener.Link) ([]shortener.Outcome, error) {
			return []shortener.Outcome{shortener.Conflict}, nil
		},
		lookup: func(context.Context, string) (shortener.Link, error) { return shortener.Link{}, shortener.ErrDetails },
	}
	s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
	_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: given("taken")})
	assertUnavailable(t, err, shortener.ErrDetails)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// A store that answers the ping may still refuse links.
func TestReadyFailsWhileStoreRefusesLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		s := startService(t, service.Config{
			Store: &faultyStore{
				insert: func(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
					if full {
						return nil, fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrStoreFull)
					}
					return slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links)), nil
				},
				ping: func(context.Context) error { return nil },
			},
			Keys: sequence("pool"),
		})
		create := func() { _, _, _ = s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"}) }
		assertReady := func(want bool, when string) {
			t.Helper()
			time.Sleep(service.Freshness)
			if err := s.Ready(t.Context()); (err == nil) != want {
				t.Errorf("Ready %s: %v", when, err)
			}
		}
		assertReady(true, "before the first creation")
		create()
		assertReady(false, "after a refused creation")
		time.Sleep(service.RefusalMemory)
		assertReady(true, "after a time without creations")
		create()
		full = false
		create()
		assertReady(true, "after a successful creation")
	})
}
