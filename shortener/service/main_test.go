package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/testenv"
	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var errDown = errors.New("connection refused")

// testNow has nanoseconds, like a real clock.
var testNow = time.Date(2026, time.March, 1, 12, 0, 0, 123_456_789, time.UTC)

// newStore returns a store on a new SQLite database.
func newStore(t testing.TB) shortener.Store {
	return sqlitestore.New(storetest.SQLite(t), storetest.Plain())
}

// newService starts a service on a new SQLite database. The function next supplies its keys.
func newService(t *testing.T, next keysFunc) (*service.Service, shortener.Store) {
	t.Helper()
	store := newStore(t)
	return startService(t, service.Config{Store: store, Keys: next}), store
}

func startService(t testing.TB, cfg service.Config) *service.Service {
	t.Helper()
	s := service.New(cfg)
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// faultyStore is a Store of which a test may replace some methods.
type faultyStore struct {
	shortener.Store
	insert func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error)
	lookup func(ctx context.Context, code string) (shortener.Link, error)
	ping   func(ctx context.Context) error
}

func (f *faultyStore) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	if f.insert == nil {
		return f.Store.Insert(ctx, links)
	}
	return f.insert(ctx, links)
}

func (f *faultyStore) Writers() int { return 2 }

func (f *faultyStore) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	if f.lookup == nil {
		return f.Store.Lookup(ctx, code)
	}
	return f.lookup(ctx, code)
}

func (f *faultyStore) Ping(ctx context.Context) error {
	if f.ping == nil {
		return f.Store.Ping(ctx)
	}
	return f.ping(ctx)
}

type keysFunc func(ctx context.Context, url string, attempt int) (shortener.Key, error)

func (f keysFunc) Next(ctx context.Context, url string, attempt int) (shortener.Key, error) {
	return f(ctx, url, attempt)
}

// sequence returns keys with the codes source00, source01 and so on.
func sequence(source string) keysFunc {
	var n atomic.Int64
	return func(context.Context, string, int) (shortener.Key, error) {
		return shortener.Key{Code: fmt.Sprintf("%s%02d", source, n.Add(1)-1), Source: source}, nil
	}
}

// listed returns a source of the given keys. The attempt is the index of the key. After the last
// key, the source returns ErrKeysExhausted.
func listed(keys ...shortener.Key) keysFunc {
	return func(_ context.Context, _ string, attempt int) (shortener.Key, error) {
		if attempt >= len(keys) {
			return shortener.Key{}, shortener.ErrKeysExhausted
		}
		return keys[attempt], nil
	}
}

// recordedBatch is a Batch that keeps every report.
type recordedBatch struct {
	mu      sync.Mutex
	reports []string
}

func (b *recordedBatch) record(report string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, report)
}

func (b *recordedBatch) Used()                { b.record("used") }
func (b *recordedBatch) Returned(code string) { b.record("returned " + code) }
func (b *recordedBatch) Lost(code string)     { b.record("lost " + code) }

func (b *recordedBatch) assert(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.reports); diff != "" {
		t.Errorf("reports to the batch (-want +got):\n%s", diff)
	}
}

// given returns the field of a request to which the user gave the value s.
func given(s string) *string { return &s }

func mustCreate(t *testing.T, s *service.Service, r shortener.Request) shortener.Link {
	t.Helper()
	link, existing, err := s.Create(t.Context(), r)
	if err != nil || existing {
		t.Fatalf("Create(%v) = %v, %v, %v; want a new link", r, link, existing, err)
	}
	return link
}

func assertResolves(t *testing.T, s *service.Service, want shortener.Link) {
	t.Helper()
	got, err := s.Resolve(t.Context(), want.Code)
	if err != nil {
		t.Fatalf("Resolve(%q): %v", want.Code, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Resolve(%q) (-want +got):\n%s", want.Code, diff)
	}
}

func assertFails(t *testing.T, s *service.Service, code string, want error) {
	t.Helper()
	if link, err := s.Resolve(t.Context(), code); !errors.Is(err, want) {
		t.Errorf("Resolve(%q) = %v, %v; want the error %v", code, link, err, want)
	}
}

func assertUnavailable(t *testing.T, err, cause error) {
	t.Helper()
	u, ok := errors.AsType[*shortener.UnavailableError](err)
	if !ok || u.RetryAfter <= 0 || !errors.Is(err, cause) {
		t.Errorf("error %v, want an UnavailableError for %v", err, cause)
	}
}

func assertInvalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	invalid, ok := errors.AsType[*shortener.InvalidError](err)
	if !ok || invalid.Field != field || !strings.Contains(invalid.Reason, reason) {
		t.Errorf("error %v, want an InvalidError for %s with %q", err, field, reason)
	}
}

// assertCounter checks the counter with this name. The counter has one label, and the parameter
// label is its value.
func assertCounter(t *testing.T, reg *prometheus.Registry, name, label string, want float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && metric.GetLabel()[0].GetValue() == label {
				got = metric.GetCounter().GetValue()
			}
		}
	}
	if got != want {
		t.Errorf("the counter %s of %q is %v, want %v", name, label, got, want)
	}
}
