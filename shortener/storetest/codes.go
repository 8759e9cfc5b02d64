package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/shortener"
)

// testKinds inserts links with codes of every length, with and without a rank, in one call.
func testKinds(t *testing.T, s shortener.Store) {
	var links []shortener.Link
	for length := 1; length <= 64; length++ {
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

// testAliasAndKey inserts a link with an alias and a link with a key that have the same code. The link
// that is inserted first keeps the code.
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

// testConcurrentLookups looks up links and unknown codes from many goroutines. The contexts of
// some look-ups end early. All other look-ups must return the right link.
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
	for row, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rank, ok := order.Rank(row.Code)
		if want := (shortener.Row{Code: row.Code, Source: "pool", Rank: rank}); ok && row != want {
			t.Fatalf("row %+v, want %+v", row, want)
		}
		if !ok {
			if row.Rank != shortener.NoRank || row.Source != "pool" {
				t.Fatalf("row %+v, want no rank and the source pool", row)
			}
			rank = math.MaxInt64
		}
		if rank < last {
			t.Fatalf("%q comes after a code with a greater rank", row.Code)
		}
		last = rank
		got = append(got, row.Code)
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
