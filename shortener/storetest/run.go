package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"keypool/shortener"
)

// Run checks that each store that the function open returns follows the contract of [shortener.Store].
// Each subtest calls open, which must return a new, empty store with the given order.
func Run(t *testing.T, open func(t *testing.T, order shortener.Order) shortener.Store) {
	for _, order := range []shortener.Order{Plain(), Reversed()} {
		t.Run(order.Fingerprint(), func(t *testing.T) {
			t.Parallel()
			runOrder(t, func(t *testing.T) shortener.Store { return open(t, order) }, order)
		})
	}
}

func runOrder(t *testing.T, open func(t *testing.T) shortener.Store, order shortener.Order) {
	for name, test := range map[string]func(*testing.T, shortener.Store){
		"Lookup returns inserted links":              testRoundTrip,
		"Insert reports outcome of each link":        testOutcomes,
		"Insert stores one of two identical links":   testIdenticalLinks,
		"repeated Insert reports Present":            testRepeatedInsert,
		"Insert stores tombstones":                   testInsertOfTombstones,
		"outcomes match model":                       testModel,
		"store accepts every kind of code":           testKinds,
		"alias and key cannot share code":            testAliasAndKey,
		"All yields every row":                       func(t *testing.T, s shortener.Store) { testAll(t, s, order) },
		"Change replaces link":                       testChange,
		"one of two concurrent changes succeeds":     testConcurrentChanges,
		"erased link keeps no content":               testErase,
		"Newest lists every link once":               testNewest,
		"Newest lists links of owner":                testNewestOfOwner,
		"Newest of empty store lists no link":        testNewestWithoutLinks,
		"Oldest yields links by creation time":       testOldest,
		"idempotency key creates one link":           testIdempotencyKeys,
		"old idempotency key can be used again":      testIdempotencyKeyIsForgotten,
		"concurrent creations share idempotency key": testConcurrentIdempotencyKeys,
		"concurrent look-ups return right links":     testConcurrentLookups,
		"methods fail after context ends":            testEndedContext,
		"concurrent Inserts of same codes succeed":   testOverlappingCodes,
		"number of writers is constant":              testWriters,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func testRoundTrip(t *testing.T, s shortener.Store) {
	moment := Moment()
	links := []shortener.Link{
		Link("000000"),
		{Code: "a", URL: "http://h", Source: shortener.SourceAlias, CreatedAt: moment, ExpiresAt: moment.AddDate(100, 0, 0)},
		{Code: "A-_0123456789abc", URL: "https://h/" + strings.Repeat("x", 2048-10), Source: "random", CreatedAt: moment},
		{Code: "nanoseconds", URL: `https://h/?q='"\{},NULL%00`, Source: "pool", CreatedAt: moment.Add(999)},
	}
	WantOutcomes(t, Insert(t, s, links...), slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links))...)
	for _, want := range links {
		want.CreatedAt = want.CreatedAt.UTC().Truncate(time.Microsecond)
		if !want.ExpiresAt.IsZero() {
			want.ExpiresAt = want.ExpiresAt.UTC()
		}
		WantLink(t, s, want)
	}
	if _, err := s.Lookup(t.Context(), "unknown"); !errors.Is(err, shortener.ErrNotFound) {
		t.Fatalf("Lookup of an unknown code: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testEndedContext(t *testing.T, s shortener.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Insert(ctx, []shortener.Link{Link("late")})
	if !errors.Is(err, shortener.ErrNotWritten) || !errors.Is(err, context.Canceled) {
		t.Errorf("Insert: %v", err)
	}
	if _, err := s.Lookup(ctx, "late"); !errors.Is(err, context.Canceled) {
		t.Errorf("Lookup: %v", err)
	}
	if err := s.Change(ctx, Link("late"), Deleted(Link("late"), Moment())); !errors.Is(err, context.Canceled) {
		t.Errorf("Change: %v", err)
	}
	if err := s.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Ping: %v", err)
	}
	var last error
	for _, last = range s.All(ctx) {
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("All: %v", last)
	}
	for _, last = range s.Oldest(ctx) {
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("Oldest: %v", last)
	}
	if _, err := s.Lookup(t.Context(), "late"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup after an Insert that wrote nothing: %v", err)
	}
}

// testWriters checks that the number of writers is at least one and constant.
func testWriters(t *testing.T, s shortener.Store) {
	if n := s.Writers(); n < 1 || s.Writers() != n {
		t.Errorf("Writers = %d, then %d; want a constant of at least 1", n, s.Writers())
	}
}
