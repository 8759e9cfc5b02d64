package shortener

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/internal/sqlite"
	"keypool/migrations"
)

// newService starts a service on an SQLite database of its own, with keys from next.
func newService(t *testing.T, next keysFunc) (*Service, Store) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "links.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	store := NewSQLiteStore(db)
	return startService(t, Config{Store: store, Keys: next}), store
}

func startService(t *testing.T, cfg Config) *Service {
	t.Helper()
	s := New(cfg)
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// brokenStore is a store of which a test breaks what it sets; all else is Store's.
type brokenStore struct {
	Store
	insert func(ctx context.Context, links []Link) ([]Outcome, error)
	lookup func(ctx context.Context, code string) (Link, error)
	ping   func(ctx context.Context) error
}

func (b *brokenStore) Insert(ctx context.Context, links []Link) ([]Outcome, error) {
	if b.insert == nil {
		return b.Store.Insert(ctx, links)
	}
	return b.insert(ctx, links)
}

func (b *brokenStore) Lookup(ctx context.Context, code string) (Link, error) {
	if b.lookup == nil {
		return b.Store.Lookup(ctx, code)
	}
	return b.lookup(ctx, code)
}

func (b *brokenStore) Ping(ctx context.Context) error {
	if b.ping == nil {
		return b.Store.Ping(ctx)
	}
	return b.ping(ctx)
}

func mustCreate(t *testing.T, s *Service, r Request) Link {
	t.Helper()
	link, existing, err := s.Create(t.Context(), r)
	if err != nil || existing {
		t.Fatalf("Create(%v) = %v, %v, %v; want a new link", r, link, existing, err)
	}
	return link
}

func assertResolves(t *testing.T, s *Service, want Link) {
	t.Helper()
	got, err := s.Resolve(t.Context(), want.Code)
	if err != nil {
		t.Fatalf("Resolve(%q): %v", want.Code, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Resolve(%q) (-want +got):\n%s", want.Code, diff)
	}
}

func assertFails(t *testing.T, s *Service, code string, want error) {
	t.Helper()
	if link, err := s.Resolve(t.Context(), code); !errors.Is(err, want) {
		t.Errorf("Resolve(%q) = %v, %v; want the error %v", code, link, err, want)
	}
}

func assertUnavailable(t *testing.T, err, cause error) {
	t.Helper()
	refusal, ok := errors.AsType[*UnavailableError](err)
	if !ok || refusal.RetryAfter <= 0 || !errors.Is(err, cause) {
		t.Errorf("error %v, want an UnavailableError for %v", err, cause)
	}
}

func TestServiceResolvesWhatItCreated(t *testing.T) {
	t.Parallel()
	s, store := newService(t, sequence("pool"))
	expires := "2999-01-01T00:00:00Z"
	for _, r := range []Request{
		{URL: "https://go.dev/a b"},
		{URL: "https://go.dev/", Alias: given("mine")},
		{URL: "https://go.dev/", ExpiresIn: given("36h")},
	} {
		link := mustCreate(t, s, r)
		assertResolves(t, s, link)
		// Another process finds it in the store.
		assertResolves(t, startService(t, Config{Store: store}), link)
	}
	_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/", ExpiresAt: &expires})
	assertInvalid(t, err, "expires_at", "100 years")
	assertFails(t, s, "unknown", ErrNotFound)
}

func TestServiceAsksNobodyForALinkItJustMade(t *testing.T) {
	t.Parallel()
	_, store := newService(t, nil)
	s := startService(t, Config{
		Store: &brokenStore{Store: store, lookup: func(context.Context, string) (Link, error) {
			return Link{}, ErrNotFound // a replica that lags
		}},
		Keys: sequence("pool"),
	})
	assertFails(t, s, "pool00", ErrNotFound)
	link := mustCreate(t, s, Request{URL: "https://go.dev/"})
	if link.Code != "pool00" {
		t.Fatalf("the code is %q, want the one that was looked up before", link.Code)
	}
	assertResolves(t, s, link)
}

func TestServiceExpiresLinks(t *testing.T) {
	t.Parallel()
	now := testNow
	_, store := newService(t, nil)
	s := startService(t, Config{Store: store, Keys: sequence("pool"), Now: func() time.Time { return now }})
	link := mustCreate(t, s, Request{URL: "https://go.dev/", ExpiresIn: given("0.5")})
	want := Link{
		Code: "pool00", URL: "https://go.dev/", Source: "pool",
		CreatedAt: stamp(now), ExpiresAt: stamp(now).Add(time.Second / 2),
	}
	if diff := cmp.Diff(want, link); diff != "" {
		t.Fatalf("the new link (-want +got):\n%s", diff)
	}
	now = link.ExpiresAt.Add(-1)
	assertResolves(t, s, link)
	now = link.ExpiresAt
	assertFails(t, s, link.Code, ErrGone)
	now = now.Add(time.Hour)
	assertFails(t, s, link.Code, ErrGone)
}

func TestServiceReady(t *testing.T) {
	t.Parallel()
	s, store := newService(t, nil)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	broken := startService(t, Config{Store: &brokenStore{Store: store, ping: func(context.Context) error { return errAway }}})
	for range 2 { // a failure is repeated as well
		assertUnavailable(t, broken.Ready(t.Context()), errAway)
	}
}

func TestServiceAsksOnceASecondWhetherItIsReady(t *testing.T) {
	t.Parallel()
	var pings atomic.Int64
	now := testNow
	s := startService(t, Config{Now: func() time.Time { return now }, Store: &brokenStore{ping: func(ctx context.Context) error {
		pings.Add(1)
		return ctx.Err()
	}}})
	impatient, cancel := context.WithCancel(t.Context())
	cancel() // one who has left does not make it unready for the others
	for second := range int64(3) {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if err := s.Ready(impatient); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := pings.Load(); n != second+1 {
			t.Errorf("asked %d times in %d s", n, second)
		}
		now = now.Add(time.Second)
	}
}

func TestServiceIsNotReadyWhenTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startService(t, Config{Store: &brokenStore{ping: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}})
		start := time.Now()
		if err := s.Ready(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that the time is over", err)
		}
		if waited := time.Since(start); waited != readyTimeout {
			t.Errorf("took %v, want %v", waited, readyTimeout)
		}
	})
}

// That the codes of one URL are in use is nobody else's trouble.
func TestServiceIsReadyWhileOneURLHasNoCodes(t *testing.T) {
	t.Parallel()
	s := startService(t, Config{
		Store: &brokenStore{
			insert: func(_ context.Context, links []Link) ([]Outcome, error) {
				return slices.Repeat([]Outcome{Conflict}, len(links)), nil
			},
			ping: func(context.Context) error { return nil },
		},
		Keys: keysFunc(func(_ context.Context, _ string, attempt int) (Key, error) {
			if attempt > 0 {
				return Key{}, ErrKeysExhausted
			}
			return Key{Code: "used", Source: "hash"}, nil
		}),
	})
	_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/"})
	assertUnavailable(t, err, ErrKeysExhausted)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready = %v", err)
	}
}

// A store that answers is not enough: while creations are refused, links cannot be made.
func TestServiceIsNotReadyWhileItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		s := startService(t, Config{
			Store: &brokenStore{
				insert: func(ctx context.Context, links []Link) ([]Outcome, error) {
					if full {
						return nil, fmt.Errorf("%w: %w", ErrNotWritten, ErrStoreFull)
					}
					return allInserted(ctx, links)
				},
				ping: func(context.Context) error { return nil },
			},
			Keys: sequence("pool"),
		})
		create := func() { _, _, _ = s.Create(t.Context(), Request{URL: "https://go.dev/"}) }
		ready := func(want bool, when string) {
			t.Helper()
			time.Sleep(Freshness)
			if err := s.Ready(t.Context()); (err == nil) != want {
				t.Errorf("%s: Ready = %v", when, err)
			}
		}
		ready(true, "before anything was asked")
		create()
		ready(false, "after a refusal")
		time.Sleep(refusalCounts)
		ready(true, "when nobody has asked for a while")
		create()
		full = false
		create()
		ready(true, "after a creation that went well")
	})
}
