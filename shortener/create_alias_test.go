package shortener

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCreateAlias(t *testing.T) {
	t.Parallel()
	const home = "https://go.dev/"
	in2100, in2101 := given("2100-01-01T00:00:00Z"), given("2101-01-01T00:00:00Z")
	for _, test := range []struct {
		name          string
		first, second Request // for one alias
		meanwhile     func(t *testing.T, s Store)
		existing      bool // else it is taken
	}{
		{"same URL", Request{URL: home}, Request{URL: home}, nil, true},
		{"same URL as stored", Request{URL: home + "%20x"}, Request{URL: " " + home + " x"}, nil, true},
		{"another URL", Request{URL: home}, Request{URL: home + "x"}, nil, false},
		{"another case of the URL", Request{URL: home}, Request{URL: "https://GO.dev/"}, nil, false},
		{"same expiry", Request{URL: home, ExpiresAt: in2100}, Request{URL: home, ExpiresAt: in2100}, nil, true},
		{"no expiry asked for", Request{URL: home, ExpiresAt: in2100}, Request{URL: home}, nil, true},
		{"another expiry", Request{URL: home, ExpiresAt: in2100}, Request{URL: home, ExpiresAt: in2101}, nil, false},
		{"an expiry where there is none", Request{URL: home}, Request{URL: home, ExpiresAt: in2100}, nil, false},
		{"deleted", Request{URL: home}, Request{URL: home}, func(t *testing.T, s Store) {
			if err := s.Delete(t.Context(), "mine", testNow); err != nil {
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
			if test.meanwhile != nil {
				test.meanwhile(t, store)
			}
			second, existing, err := s.Create(t.Context(), test.second)
			if !test.existing {
				if !errors.Is(err, ErrAliasTaken) || existing || second != (Link{}) {
					t.Errorf("got %v, %v, %v; want that the alias is taken", second, existing, err)
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

func TestCreateAliasIsTakenForGood(t *testing.T) {
	t.Parallel()
	now := testNow
	_, store := newService(t, nil)
	s := startService(t, Config{Store: store, Now: func() time.Time { return now }})
	r := Request{URL: "https://go.dev/", Alias: given("brief"), ExpiresAt: given("2026-03-01T12:00:01Z")}
	mustCreate(t, s, r)
	now = now.Add(time.Minute)
	r.ExpiresAt = nil
	if _, _, err := s.Create(t.Context(), r); !errors.Is(err, ErrAliasTaken) {
		t.Errorf("error %v, want that an expired alias stays taken", err)
	}
}

func TestCreateAliasMeetsTheKeyOfALink(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, sequence("pool"))
	link := mustCreate(t, s, Request{URL: "https://go.dev/"})
	got, existing, err := s.Create(t.Context(), Request{URL: "https://go.dev/", Alias: &link.Code})
	if err != nil || !existing || got != link {
		t.Errorf("got %v, %v, %v; want the link with that key", got, existing, err)
	}
}

func TestCreateAliasFailsWhenItsOwnerCannotBeRead(t *testing.T) {
	t.Parallel()
	_, store := newService(t, nil)
	mustCreate(t, startService(t, Config{Store: store}), Request{URL: "https://go.dev/", Alias: given("mine")})
	for _, cause := range []error{errAway, ErrNotFound} {
		s := startService(t, Config{Store: &brokenStore{Store: store, lookup: func(context.Context, string) (Link, error) {
			return Link{}, cause
		}}})
		_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/", Alias: given("mine")})
		if _, ok := errors.AsType[*UnavailableError](err); !ok || errors.Is(err, ErrNotFound) {
			t.Errorf("error %v for %v, want an UnavailableError that is not ErrNotFound", err, cause)
		}
	}
}

func TestCreateAliasRace(t *testing.T) {
	t.Parallel()
	const users = 32
	for _, test := range []struct {
		name            string
		url             func(i int) string
		existing, taken int64
	}{
		{"for one URL", func(int) string { return "https://go.dev/" }, users - 1, 0},
		{"for as many URLs", func(i int) string { return fmt.Sprintf("https://go.dev/%d", i) }, 0, users - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, store := newService(t, nil)
			// Two processes on one store, and every user in the same microsecond.
			now := time.Now()
			clock := func() time.Time { return now }
			services := []*Service{
				startService(t, Config{Store: store, Now: clock}), startService(t, Config{Store: store, Now: clock}),
			}
			var created, existing, taken atomic.Int64
			var winner atomic.Pointer[Link]
			var group sync.WaitGroup
			for i := range users {
				group.Go(func() {
					link, found, err := services[i%2].Create(t.Context(), Request{URL: test.url(i), Alias: given("mine")})
					switch {
					case errors.Is(err, ErrAliasTaken):
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
	}
}
