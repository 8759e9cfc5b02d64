package shortener

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
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type keysFunc func(ctx context.Context, url string, attempt int) (Key, error)

func (f keysFunc) Next(ctx context.Context, url string, attempt int) (Key, error) {
	return f(ctx, url, attempt)
}

// sequence yields source00, source01 and so on.
func sequence(source string) keysFunc {
	var n atomic.Int64
	return func(context.Context, string, int) (Key, error) {
		return Key{Code: fmt.Sprintf("%s%02d", source, n.Add(1)-1), Source: source}, nil
	}
}

// listed yields the given keys in order, then ErrKeysExhausted.
func listed(keys ...Key) keysFunc {
	return func(_ context.Context, _ string, attempt int) (Key, error) {
		if attempt >= len(keys) {
			return Key{}, ErrKeysExhausted
		}
		return keys[attempt], nil
	}
}

// books is a Lease that writes down what it is told.
type books struct {
	mu      sync.Mutex
	entries []string
}

func (b *books) write(entry string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, entry)
}

func (b *books) Spent()             { b.write("spent") }
func (b *books) Unused(code string) { b.write("unused " + code) }
func (b *books) Lost(code string)   { b.write("lost " + code) }

func (b *books) assert(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.entries); diff != "" {
		t.Errorf("what the lease was told (-want +got):\n%s", diff)
	}
}

func TestCreateGivesEachPostACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, sequence("pool"))
	codes := make(map[string]bool)
	for range 3 {
		codes[mustCreate(t, s, Request{URL: "https://go.dev/"}).Code] = true
	}
	if len(codes) != 3 {
		t.Errorf("codes %v, want three", codes)
	}
}

// A key that the service serves a page of its own under could never be followed.
func TestCreatePassesOverKeysThatAreRoutes(t *testing.T) {
	t.Parallel()
	var lease books
	s, _ := newService(t, listed(
		Key{Code: "healthz", Source: "pool", Lease: &lease},
		Key{Code: "shorten", Source: "pool", Lease: &lease},
		Key{Code: "fine", Source: "pool", Lease: &lease},
	))
	if got := mustCreate(t, s, Request{URL: "https://go.dev/"}).Code; got != "fine" {
		t.Errorf("the link got the code %q", got)
	}
	lease.assert(t, "lost healthz", "lost shorten", "spent")
}

func TestCreateTakesTheNextKeyAfterAConflict(t *testing.T) {
	t.Parallel()
	_, store := newService(t, nil)
	first := startService(t, Config{Store: store, Keys: listed(Key{Code: "used", Source: "pool"})})
	used := mustCreate(t, first, Request{URL: "https://go.dev/first"})

	var lease books
	metrics := NewMetrics(prometheus.NewRegistry())
	s := startService(t, Config{Store: store, Metrics: metrics, Keys: listed(
		Key{Code: "used", Source: "pool", Lease: &lease},
		Key{Code: "used", Source: "random"},
		Key{Code: "used", Source: "random"},
		Key{Code: "free", Source: "random", Lease: &lease},
	)})
	link := mustCreate(t, s, Request{URL: "https://go.dev/second"})
	if link.Code != "free" || link.Source != "random" {
		t.Errorf("the link is %v, want the free code", link)
	}
	assertResolves(t, s, link)
	assertResolves(t, s, used)
	lease.assert(t, "spent", "spent")

	for _, count := range []struct {
		name    string
		counter prometheus.Counter
		want    float64
	}{
		{"taken from the pool", metrics.source("pool").taken, 1},
		{"taken at random", metrics.source("random").taken, 3},
		{"conflicts of the pool", metrics.source("pool").conflicts, 1},
		{"conflicts at random", metrics.source("random").conflicts, 2},
		{"made with a key", metrics.createdByKey, 1},
		{"made with an alias", metrics.createdByAlias, 0},
	} {
		if got := testutil.ToFloat64(count.counter); got != count.want {
			t.Errorf("%s: %v, want %v", count.name, got, count.want)
		}
	}
}

func TestCreateCountsFallbackAttempts(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	metrics.createdWithKey(0) // not random: not an observation
	metrics.createdWithKey(3)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "kgs_fallback_attempts" {
			continue
		}
		if h := family.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 3 {
			t.Errorf("%d observations with the sum %v, want one of 3", h.GetSampleCount(), h.GetSampleSum())
		}
	}
}

func TestCreateTellsTheLeaseWhatAFailedCommitDid(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		err   error // of each INSERT
		cause error // of the refusal
		want  string
	}{
		{"surely not written", fmt.Errorf("%w: %w", ErrNotWritten, errAway), errAway, "unused code"},
		{"no space", fmt.Errorf("%w: %w", ErrNotWritten, ErrStoreFull), ErrStoreFull, "unused code"},
		{"nobody knows", errAway, errTooSlow, "lost code"}, // the committer tries again in vain
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var lease books
				s := startService(t, Config{
					Keys:  listed(Key{Code: "code", Source: "pool", Lease: &lease}),
					Store: &brokenStore{insert: func(context.Context, []Link) ([]Outcome, error) { return nil, test.err }},
				})
				_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/"})
				assertUnavailable(t, err, test.cause)
				lease.assert(t, test.want)
				if _, known := s.cache.entries.GetIfPresent("code"); known {
					t.Error("the link is in the cache without having been acknowledged")
				}
			})
		})
	}
}

// A link that the store does not take is nothing that passes.
func TestCreateDoesNotAskToRetryWhatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("%w: %w", ErrNotWritten, ErrRefused)
	s := startService(t, Config{
		Keys:  sequence("pool"),
		Store: &brokenStore{insert: func(context.Context, []Link) ([]Outcome, error) { return nil, refused }},
	})
	for _, alias := range []*string{nil, given("mine")} {
		_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/", Alias: alias})
		if _, retry := errors.AsType[*UnavailableError](err); retry || !errors.Is(err, ErrRefused) {
			t.Errorf("error %v, want a plain ErrRefused", err)
		}
	}
}

func TestCreateEndsWhenTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lease books
		s := startService(t, Config{
			Keys: listed(Key{Code: "code", Source: "pool", Lease: &lease}),
			Store: &brokenStore{insert: func(ctx context.Context, _ []Link) ([]Outcome, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
		})
		start := time.Now()
		_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/"})
		assertUnavailable(t, err, errTooSlow)
		if waited := time.Since(start); waited >= time.Second {
			t.Errorf("took %v, want less than a second", waited)
		}
		lease.assert(t, "lost code")
	})
}

func TestCreateWithoutKeys(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, listed())
	_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/"})
	assertUnavailable(t, err, ErrKeysExhausted)
}

func TestCreateEndsWhenEveryKeyConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startService(t, Config{
			Keys: keysFunc(func(context.Context, string, int) (Key, error) { return Key{Code: "used", Source: "hash"}, nil }),
			Store: &brokenStore{insert: func(_ context.Context, links []Link) ([]Outcome, error) {
				outcomes := make([]Outcome, len(links))
				for i := range outcomes {
					outcomes[i] = Conflict
				}
				return outcomes, nil
			}},
		})
		_, _, err := s.Create(t.Context(), Request{URL: "https://go.dev/"})
		assertUnavailable(t, err, ErrKeysExhausted)
		if n := testutil.ToFloat64(s.metrics.source("hash").conflicts); n != maxAttempts {
			t.Errorf("%v attempts, want %d", n, maxAttempts)
		}
	})
}

func TestCreateFinishesTheCommitOfAUserWhoLeft(t *testing.T) {
	t.Parallel()
	_, store := newService(t, nil)
	for _, test := range []struct {
		name string
		keys []Key
		want error
	}{
		{"whose key is free", []Key{{Code: "free", Source: "pool"}}, nil},
		{"but draws no other key", []Key{{Code: "used", Source: "pool"}, {Code: "other", Source: "pool"}}, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := store.Insert(t.Context(), []Link{testLink("used")}); err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			var lease books
			for i := range test.keys {
				test.keys[i].Lease = &lease
			}
			s := startService(t, Config{
				Keys: listed(test.keys...),
				Store: &brokenStore{Store: store, insert: func(ctx context.Context, links []Link) ([]Outcome, error) {
					leave()
					return store.Insert(ctx, links)
				}},
			})
			if _, _, err := s.Create(ctx, Request{URL: "https://go.dev/"}); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			lease.assert(t, "spent")
		})
	}
}

func TestCreateRefusesBeforeItDrawsAKey(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, func(context.Context, string, int) (Key, error) {
		t.Error("a key was drawn")
		return Key{}, ErrKeysExhausted
	})
	for field, r := range map[string]Request{
		"url":        {URL: "https://s.example/a", Self: testSelf},
		"alias":      {URL: "https://go.dev/", Alias: given("Admin")},
		"expires_at": {URL: "https://go.dev/", ExpiresAt: given("2001-01-01T00:00:00Z")},
		"expires_in": {URL: "https://go.dev/", ExpiresIn: given("0")},
	} {
		link, existing, err := s.Create(t.Context(), r)
		assertInvalid(t, err, field, "")
		if link != (Link{}) || existing {
			t.Errorf("%s: gave %v, %v as well", field, link, existing)
		}
	}
}
