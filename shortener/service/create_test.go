package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener"
	"keypool/shortener/commit"
	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/shortener/storetest"
)

func TestCreateUsesANewCodeEachTime(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, sequence("pool"))
	codes := make(map[string]bool)
	for range 3 {
		codes[mustCreate(t, s, shortener.Request{URL: "https://go.dev/"}).Code] = true
	}
	if len(codes) != 3 {
		t.Errorf("three creations got the codes %v, want three different codes", codes)
	}
}

// A key that equals a path of the service would make a link that cannot be followed.
func TestCreateSkipsKeysThatEqualPathsOfService(t *testing.T) {
	t.Parallel()
	var batch recordedBatch
	s, _ := newService(t, listed(
		shortener.Key{Code: "healthz", Source: "pool", Batch: &batch},
		shortener.Key{Code: "shorten", Source: "pool", Batch: &batch},
		shortener.Key{Code: "docs", Source: "pool", Batch: &batch},
		shortener.Key{Code: "fine", Source: "pool", Batch: &batch},
	))
	if got := mustCreate(t, s, shortener.Request{URL: "https://go.dev/"}).Code; got != "fine" {
		t.Errorf("the link has the code %q, want fine", got)
	}
	batch.assert(t, "lost healthz", "lost shorten", "lost docs", "used")
}

func TestCreateTakesTheNextKeyAfterAConflict(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first := startService(t, service.Config{Store: store, Keys: listed(shortener.Key{Code: "used", Source: "pool"})})
	used := mustCreate(t, first, shortener.Request{URL: "https://go.dev/first"})

	var batch recordedBatch
	registry := prometheus.NewRegistry()
	s := startService(t, service.Config{Store: store, Metrics: service.NewMetrics(registry), Keys: listed(
		shortener.Key{Code: "used", Source: "pool", Batch: &batch},
		shortener.Key{Code: "used", Source: "random"},
		shortener.Key{Code: "used", Source: "random"},
		shortener.Key{Code: "free", Source: "random", Batch: &batch},
	)})
	link := mustCreate(t, s, shortener.Request{URL: "https://go.dev/second"})
	if link.Code != "free" || link.Source != "random" {
		t.Errorf("the link is %v, want the free code", link)
	}
	assertResolves(t, s, link)
	assertResolves(t, s, used)
	batch.assert(t, "used", "used")

	assertCounter(t, registry, "kgs_keys_taken_total", "pool", 1)
	assertCounter(t, registry, "kgs_keys_taken_total", "random", 3)
	assertCounter(t, registry, "kgs_key_conflicts_total", "pool", 1)
	assertCounter(t, registry, "kgs_key_conflicts_total", "random", 2)
	assertCounter(t, registry, "shortener_links_created_total", "key", 1)
	assertCounter(t, registry, "shortener_links_created_total", "alias", 0)
}

func TestCreateSettlesTheKeyOfAFailedCommit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		err   error // error of each Insert
		cause error // cause of the UnavailableError
		want  string
	}{
		{"not written", fmt.Errorf("%w: %w", shortener.ErrNotWritten, errDown), errDown, "returned code"},
		{"disk full", fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrStoreFull), shortener.ErrStoreFull, "returned code"},
		{"unknown outcome", errDown, commit.ErrTooSlow, "lost code"}, // the committer repeats the Insert without success
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var batch recordedBatch
				s := startService(t, service.Config{
					Keys:  listed(shortener.Key{Code: "code", Source: "pool", Batch: &batch}),
					Store: &faultyStore{insert: func(context.Context, []shortener.Link) ([]shortener.Outcome, error) { return nil, test.err }},
				})
				_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"})
				assertUnavailable(t, err, test.cause)
				batch.assert(t, test.want)
				if s.Cached("code") {
					t.Error("the cache has a link that was not acknowledged")
				}
			})
		})
	}
}

// If the store rejects the data of a link, a retry cannot succeed, so the error must not advise a
// retry. The service stays ready, because other links can be created.
func TestCreateDoesNotAdviseRetryIfStoreRefusesLink(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrRefused)
	s := startService(t, service.Config{
		Keys: sequence("pool"),
		Store: &faultyStore{
			insert: func(context.Context, []shortener.Link) ([]shortener.Outcome, error) { return nil, refused },
			ping:   func(context.Context) error { return nil },
		},
	})
	for _, alias := range []*string{nil, given("mine")} {
		_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: alias})
		if _, unavailable := errors.AsType[*shortener.UnavailableError](err); unavailable || !errors.Is(err, shortener.ErrRefused) {
			t.Errorf("Create: %v, want ErrRefused without an UnavailableError", err)
		}
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready after a refused link: %v", err)
	}
}

func TestCreateFailsAfterTimeLimitIfStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batch recordedBatch
		s := startService(t, service.Config{
			Keys: listed(shortener.Key{Code: "code", Source: "pool", Batch: &batch}),
			Store: &faultyStore{insert: func(ctx context.Context, _ []shortener.Link) ([]shortener.Outcome, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
		})
		start := time.Now()
		_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"})
		assertUnavailable(t, err, commit.ErrTooSlow)
		if waited := time.Since(start); waited >= time.Second {
			t.Errorf("Create took %v, want less than a second", waited)
		}
		batch.assert(t, "lost code")
	})
}

func TestCreateFailsIfNoKeyIsAvailable(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, listed())
	_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"})
	assertUnavailable(t, err, shortener.ErrKeysExhausted)
}

func TestCreateFailsIfEveryKeyConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		s := startService(t, service.Config{
			Metrics: service.NewMetrics(registry),
			Keys: keysFunc(func(context.Context, string, int) (shortener.Key, error) {
				return shortener.Key{Code: "used", Source: "hash"}, nil
			}),
			Store: &faultyStore{insert: func(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
				return slices.Repeat([]shortener.Outcome{shortener.Conflict}, len(links)), nil
			}},
		})
		_, _, err := s.Create(t.Context(), shortener.Request{URL: "https://go.dev/"})
		assertUnavailable(t, err, shortener.ErrKeysExhausted)
		assertCounter(t, registry, "kgs_key_conflicts_total", "hash", 10_000)
	})
}

func TestCreateFinishesACommitAfterTheContextEnds(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, test := range []struct {
		name string
		keys []shortener.Key
		want error
	}{
		{"free key", []shortener.Key{{Code: "free", Source: "pool"}}, nil},
		{"used key, then no further key", []shortener.Key{{Code: "used", Source: "pool"}, {Code: "other", Source: "pool"}}, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := store.Insert(t.Context(), []shortener.Link{storetest.Link("used")}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var batch recordedBatch
			for i := range test.keys {
				test.keys[i].Batch = &batch
			}
			s := startService(t, service.Config{
				Keys: listed(test.keys...),
				Store: &faultyStore{Store: store, insert: func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
					cancel()
					return store.Insert(ctx, links)
				}},
			})
			if _, _, err := s.Create(ctx, shortener.Request{URL: "https://go.dev/"}); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			batch.assert(t, "used")
		})
	}
}

func TestCreateValidatesRequestBeforeItDrawsAKey(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, func(context.Context, string, int) (shortener.Key, error) {
		t.Error("a key was drawn")
		return shortener.Key{}, shortener.ErrKeysExhausted
	})
	self, _ := destination.ParseOrigin("https://s.example")
	for field, r := range map[string]shortener.Request{
		"url":        {URL: "https://s.example/a", Self: self},
		"alias":      {URL: "https://go.dev/", Alias: given("Admin")},
		"expires_at": {URL: "https://go.dev/", ExpiresAt: given("2001-01-01T00:00:00Z")},
		"expires_in": {URL: "https://go.dev/", ExpiresIn: given("0")},
	} {
		link, existing, err := s.Create(t.Context(), r)
		assertInvalid(t, err, field, "")
		if link != (shortener.Link{}) || existing {
			t.Errorf("%s: returned %v, %v with the error", field, link, existing)
		}
	}
}
