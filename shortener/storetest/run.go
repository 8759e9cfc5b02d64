package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keypool/shortener"
)

// Run checks the contract of [shortener.Store] on the stores that open returns. Each
// subtest opens a new, empty store with a given order.
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
		"round trip":          testRoundTrip,
		"outcomes":            testOutcomes,
		"identical links":     testIdenticalLinks,
		"repeated insert":     testRepeatedInsert,
		"model":               testModel,
		"delete":              testDelete,
		"every kind of code":  testKinds,
		"alias and key":       testAliasAndKey,
		"all":                 func(t *testing.T, s shortener.Store) { testAll(t, s, order) },
		"concurrent look-ups": testConcurrentLookups,
		"ended context":       testEndedContext,
		"overlapping codes":   testOverlappingCodes,
		"number of writers":   testWriters,
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

func testOutcomes(t *testing.T, s shortener.Store) {
	old, deleted := Link("old"), Link("deleted")
	Insert(t, s, old, deleted)
	deleted.DeletedAt = Moment().UTC()
	if err := s.Delete(t.Context(), deleted.Code, Moment()); err != nil {
		t.Fatal(err)
	}
	other := func(code string) shortener.Link {
		l := Link(code)
		l.URL = "https://other.example/"
		return l
	}
	// The link z is before the link a, because outcomes have the order of the links and not of
	// the codes.
	WantOutcomes(t, Insert(t, s, Link("z"), other("old"), Link("m"), other("deleted"), other("m"), Link("a")),
		shortener.Inserted, shortener.Conflict, shortener.Inserted, shortener.Conflict, shortener.Conflict, shortener.Inserted)
	for _, want := range []shortener.Link{old, deleted, Link("z"), Link("m"), Link("a")} {
		WantLink(t, s, want)
	}
}

func testIdenticalLinks(t *testing.T, s shortener.Store) {
	WantOutcomes(t, Insert(t, s, Link("twin"), Link("twin")), shortener.Inserted, shortener.Conflict)
	WantOutcomes(t, Insert(t, s, Link("twin"), Link("twin")), shortener.Present, shortener.Conflict)
}

// testRepeatedInsert inserts links that differ from a stored link in one field. Then it inserts
// the stored link again.
func testRepeatedInsert(t *testing.T, s shortener.Store) {
	base := Link("base")
	base.ExpiresAt = Moment().UTC().Add(time.Hour)
	Insert(t, s, base)
	for name, change := range map[string]func(*shortener.Link){
		"url":        func(l *shortener.Link) { l.URL += "x" },
		"source":     func(l *shortener.Link) { l.Source = shortener.SourceAlias },
		"created_at": func(l *shortener.Link) { l.CreatedAt = l.CreatedAt.Add(time.Microsecond) },
		"expires_at": func(l *shortener.Link) { l.ExpiresAt = l.ExpiresAt.Add(time.Microsecond) },
		"no expiry":  func(l *shortener.Link) { l.ExpiresAt = time.Time{} },
	} {
		changed := base
		change(&changed)
		if got := Insert(t, s, changed); got[0] != shortener.Conflict {
			t.Errorf("Insert of a link with a different %s: outcome %v, want Conflict", name, got[0])
		}
	}
	WantOutcomes(t, Insert(t, s, Link("new"), base), shortener.Inserted, shortener.Present)
	if err := s.Delete(t.Context(), base.Code, Moment()); err != nil {
		t.Fatal(err)
	}
	WantOutcomes(t, Insert(t, s, base), shortener.Present) // the link was inserted and then deleted
	base.DeletedAt = Moment().UTC()
	WantLink(t, s, base)
}

// testModel compares the store with a map. The links have few codes and few URLs, so that outcomes other
// than Inserted are frequent.
func testModel(t *testing.T, s shortener.Store) {
	model := make(map[string]shortener.Link)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		links := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) shortener.Link {
			l := Link(fmt.Sprintf("%d-%d", run/4, rapid.IntRange(0, 9).Draw(rt, "code")))
			l.URL += rapid.SampledFrom([]string{"", "?2"}).Draw(rt, "url")
			return l
		}), 1, 20).Draw(rt, "links")
		var want []shortener.Outcome
		matched := make(map[string]bool) // codes whose row belongs to a link of this call
		for _, l := range links {
			row, exists := model[l.Code]
			switch {
			case !exists:
				model[l.Code], matched[l.Code] = l, true
				want = append(want, shortener.Inserted)
			case row == l && !matched[l.Code]:
				matched[l.Code] = true
				want = append(want, shortener.Present)
			default:
				want = append(want, shortener.Conflict)
			}
		}
		WantOutcomes(t, Insert(t, s, links...), want...)
	})
	for _, want := range model {
		WantLink(t, s, want)
	}
}

func testDelete(t *testing.T, s shortener.Store) {
	link := Link("deleted")
	Insert(t, s, link, Link("other"))
	for i := range 2 {
		if err := s.Delete(t.Context(), link.Code, Moment().Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	link.DeletedAt = Moment().UTC()
	WantLink(t, s, link)
	WantLink(t, s, Link("other"))
	if err := s.Delete(t.Context(), "unknown", Moment()); !errors.Is(err, shortener.ErrNotFound) {
		t.Fatalf("Delete of an unknown code: %v", err)
	}
}

// testKinds stores links with codes of every length, with and without a rank, in one Insert.
func testKinds(t *testing.T, s shortener.Store) {
	var links []shortener.Link
	for length := 1; length <= 22; length++ {
		for _, c := range []string{"0", "z", "-", "_"} {
			links = append(links, Link(strings.Repeat(c, length)))
		}
	}
	WantOutcomes(t, Insert(t, s, links...), slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links))...)
	WantOutcomes(t, Insert(t, s, links...), slices.Repeat([]shortener.Outcome{shortener.Present}, len(links))...)
	for _, link := range links {
		WantLink(t, s, link)
	}
	for _, code := range []string{"01", "000001", "0000000001", "-1", "00000000000000001"} {
		if _, err := s.Lookup(t.Context(), code); !errors.Is(err, shortener.ErrNotFound) {
			t.Errorf("Lookup(%q): %v, want ErrNotFound", code, err)
		}
	}
}

// testAliasAndKey gives an alias and a key the same code, in both orders. The first link keeps the
// code.
func testAliasAndKey(t *testing.T, s shortener.Store) {
	for _, code := range []string{"abc", "AbC123", "zzzzzzzzzz"} {
		key, alias := Link(code), Link(code)
		alias.Source, alias.URL = shortener.SourceAlias, "https://alias.example/"
		WantOutcomes(t, Insert(t, s, alias), shortener.Inserted)
		WantOutcomes(t, Insert(t, s, key), shortener.Conflict)
		WantLink(t, s, alias)
		key.Code = code[1:] + "0"
		alias.Code = key.Code
		WantOutcomes(t, Insert(t, s, key), shortener.Inserted)
		WantOutcomes(t, Insert(t, s, alias), shortener.Conflict)
		WantLink(t, s, key)
	}
}

// testConcurrentLookups looks up links and unknown codes with many callers, some of which leave at
// once. Every caller that stays gets its own link.
func testConcurrentLookups(t *testing.T, s shortener.Store) {
	const callers, each = 32, 40
	var links []shortener.Link
	for i := range callers {
		links = append(links, Link(fmt.Sprintf("%06d", i)), Link(fmt.Sprintf("alias-%d", i)))
	}
	Insert(t, s, links...)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				want := links[(i+n)%len(links)]
				if n%4 == 3 {
					ctx, leave := context.WithTimeout(t.Context(), time.Duration(n)*time.Microsecond)
					got, err := s.Lookup(ctx, want.Code)
					leave()
					if err == nil && got != want {
						t.Errorf("Lookup(%q) = %v", want.Code, got)
					}
					continue
				}
				WantLink(t, s, want)
				if _, err := s.Lookup(t.Context(), fmt.Sprintf("none%d", i)); !errors.Is(err, shortener.ErrNotFound) {
					t.Errorf("Lookup of an unknown code: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func testAll(t *testing.T, s shortener.Store, order shortener.Order) {
	const rows = 2*4096 + 1 // more than two pages of sqlitestore
	var links []shortener.Link
	var want, got []string
	for i := range rows {
		want = append(want, fmt.Sprintf("%06d", i*7919%1_000_000))
		links = append(links, Link(want[i]))
	}
	for i := range 3 {
		want = append(want, fmt.Sprintf("without-rank-%d", i))
		links = append(links, Link(want[rows+i]))
	}
	Insert(t, s, links...)
	last := int64(-1)
	for link, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rank, ok := order.Rank(link.Code)
		if !ok {
			rank = math.MaxInt64
		}
		if rank < last {
			t.Fatalf("%q comes after a code with a greater rank", link.Code)
		}
		last = rank
		if link.Source != "pool" {
			t.Fatalf("%q has the source %q, want pool", link.Code, link.Source)
		}
		got = append(got, link.Code)
		if len(got) == 1 { // the pass does not block a writer
			Insert(t, s, Link("concurrent"))
		}
	}
	got = slices.DeleteFunc(got, func(code string) bool { return code == "concurrent" })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(want, got) {
		t.Fatalf("All returned %d codes, want the %d that existed at its start", len(got), len(want))
	}
	for range s.All(t.Context()) {
		break
	}
	WantLink(t, s, Link("concurrent")) // a pass that ends early releases its connection
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
	if err := s.Delete(ctx, "late", Moment()); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v", err)
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
	if _, err := s.Lookup(t.Context(), "late"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup after an Insert that wrote nothing: %v", err)
	}
}

// testOverlappingCodes inserts the same codes concurrently in different orders. Each code
// has exactly one winner, and no Insert fails by a deadlock.
func testOverlappingCodes(t *testing.T, s shortener.Store) {
	const writers, codes = 8, 400
	var inserted atomic.Int32
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			links := make([]shortener.Link, codes)
			for i := range links {
				links[i] = Link(fmt.Sprint((i + w*codes/writers) % codes))
				links[i].URL = fmt.Sprintf("https://h/%d", w)
			}
			outcomes, err := s.Insert(t.Context(), links)
			if err != nil {
				t.Error(err)
			}
			for _, o := range outcomes {
				if o == shortener.Inserted {
					inserted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if inserted.Load() != codes {
		t.Fatalf("%d links were inserted for %d codes", inserted.Load(), codes)
	}
}

// testWriters checks that the number of writers is at least one and constant.
func testWriters(t *testing.T, s shortener.Store) {
	if n := s.Writers(); n < 1 || s.Writers() != n {
		t.Errorf("Writers = %d, then %d; want a constant of at least 1", n, s.Writers())
	}
}
