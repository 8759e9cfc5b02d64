package service_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/service"
)

func TestCreateReturnsAliasLinkOnlyIfItSatisfiesRequest(t *testing.T) {
	t.Parallel()
	const home = "https://go.dev/"
	in2100, in2101 := given("2100-01-01T00:00:00Z"), given("2101-01-01T00:00:00Z")
	for _, test := range []struct {
		name          string
		first, second shortener.Request // both requests have the same alias
		between       func(t *testing.T, s shortener.Store)
		existing      bool // true: Create returns the first link; false: ErrAliasTaken
	}{
		{"same URL", shortener.Request{URL: home}, shortener.Request{URL: home}, nil, true},
		{"same URL as stored", shortener.Request{URL: home + "%20x"}, shortener.Request{URL: " " + home + " x"}, nil, true},
		{"another URL", shortener.Request{URL: home}, shortener.Request{URL: home + "x"}, nil, false},
		{"another case of the URL", shortener.Request{URL: home}, shortener.Request{URL: "https://GO.dev/"}, nil, false},
		{"same expiry", shortener.Request{URL: home, ExpiresAt: in2100}, shortener.Request{URL: home, ExpiresAt: in2100}, nil, true},
		{"no expiry in the request", shortener.Request{URL: home, ExpiresAt: in2100}, shortener.Request{URL: home}, nil, true},
		{"another expiry", shortener.Request{URL: home, ExpiresAt: in2100}, shortener.Request{URL: home, ExpiresAt: in2101}, nil, false},
		{"an expiry for a link without one", shortener.Request{URL: home}, shortener.Request{URL: home, ExpiresAt: in2100}, nil, false},
		{"deleted", shortener.Request{URL: home}, shortener.Request{URL: home}, func(t *testing.T, s shortener.Store) {
			if err := service.Delete(t.Context(), s, "mine", testNow); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, store := newService(t, nil)
			alias := "mine"
			test.first.Alias, test.second.Alias = &alias, &alias
			first := mustCreate(t, s, test.first)
			if test.between != nil {
				test.between(t, store)
			}
			second, existing, err := s.Create(t.Context(), test.second)
			if !test.existing {
				if !errors.Is(err, shortener.ErrAliasTaken) || existing || second != (shortener.Link{}) {
					t.Errorf("got %v, %v, %v; want ErrAliasTaken", second, existing, err)
				}
				return
			}
			if err != nil || !existing {
				t.Errorf("got %v, %v; want the existing link", existing, err)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("the existing link (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasOfExpiredLinkCannotBeCreatedAgain(t *testing.T) {
	t.Parallel()
	now := testNow
	store := newStore(t)
	s := startService(t, service.Config{Store: store, Now: func() time.Time { return now }})
	r := shortener.Request{URL: "https://go.dev/", Alias: given("brief"), ExpiresAt: given("2026-03-01T12:00:02Z")}
	mustCreate(t, s, r)
	now = now.Add(time.Minute)
	r.ExpiresAt = nil
	if _, _, err := s.Create(t.Context(), r); !errors.Is(err, shortener.ErrAliasTaken) {
		t.Errorf("Create with the alias of an expired link: %v, want ErrAliasTaken", err)
	}
}

func TestCreateReturnsLinkWhoseKeyEqualsRequestedAlias(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, sequence("pool"))
	link := mustCreate(t, s, shortener.Request{URL: "https://go.dev/"})
	got, existing, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: &link.Code})
	if err != nil || !existing || got != link {
		t.Errorf("Create = %v, %v, %v, want the existing link with that key", got, existing, err)
	}
}

func TestCreateFailsIfLinkWithSameAliasCannotBeRead(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	mustCreate(t, startService(t, service.Config{Store: store}), shortener.Request{URL: "https://go.dev/", Alias: given("mine")})
	for _, cause := range []error{errDown, shortener.ErrNotFound} {
		s := startService(t, service.Config{Store: &faultyStore{Store: store, lookup: func(context.Context, string) (shortener.Link, error) {
			return shortener.Link{}, cause
		}}})
		_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: given("mine")})
		if _, ok := errors.AsType[*shortener.UnavailableError](err); !ok || errors.Is(err, shortener.ErrNotFound) {
			t.Errorf("Create: %v after the look-up error %v, want an UnavailableError without ErrNotFound", err, cause)
		}
	}
}

// The clock of the synctest bubble stands still while SQLite works. So a slow disk makes no creation fail.
func TestConcurrentCreationsOfOneAliasCreateOneLink(t *testing.T) {
	t.Parallel()
	const users = 32
	for _, test := range []struct {
		name            string
		url             func(i int) string
		existing, taken int64
	}{
		{"one URL", func(int) string { return "https://go.dev/" }, users - 1, 0},
		{"different URLs", func(i int) string { return fmt.Sprintf("https://go.dev/%d", i) }, 0, users - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				// Two services use one store, as two processes would. All creations are in the same
				// microsecond.
				now := time.Now()
				clock := func() time.Time { return now }
				services := []*service.Service{
					startService(t, service.Config{Store: store, Now: clock}), startService(t, service.Config{Store: store, Now: clock}),
				}
				var created, existing, taken atomic.Int64
				var winner atomic.Pointer[shortener.Link]
				var group sync.WaitGroup
				for i := range users {
					group.Go(func() {
						link, found, err := services[i%2].Create(t.Context(), shortener.Request{URL: test.url(i), Alias: given("mine")})
						switch {
						case errors.Is(err, shortener.ErrAliasTaken):
							taken.Add(1)
						case err != nil:
							t.Error(err)
						case found:
							existing.Add(1)
						default:
							created.Add(1)
							winner.Store(&link)
						}
					})
				}
				group.Wait()
				if created.Load() != 1 || existing.Load() != test.existing || taken.Load() != test.taken {
					t.Fatalf("%d created, %d existing, %d taken; want 1, %d, %d",
						created.Load(), existing.Load(), taken.Load(), test.existing, test.taken)
				}
				for _, s := range services {
					assertResolves(t, s, *winner.Load())
				}
			})
		})
	}
}
