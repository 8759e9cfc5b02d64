package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"keypool/shortener"
)

// Owned returns a link with the given code and owner. It has a value for each detail that an owner chooses.
func Owned(code string, owner int64) shortener.Link {
	l := Link(code)
	l.Details = &shortener.Details{
		Owner: owner, Title: "Ein \"Titel\" 標題", Tags: []string{"a", "b c"}, Editable: true, Version: 1, Redirect: 307,
		Forward: shortener.ForwardQuery,
	}
	return l
}

// testChange changes a link of each table. It also checks that Change fails with ErrChanged if the link has another
// version, is deleted or does not exist.
func testChange(t *testing.T, s shortener.Store) {
	for _, old := range []shortener.Link{Link("ranked"), Link("un-ranked"), Owned("owned", 7), Owned("own-ed", 7)} {
		Insert(t, s, old, Link(old.Code+"2"))
		changed := Owned(old.Code, 7)
		changed.URL, changed.ExpiresAt = "https://changed.example/", Moment().UTC().Add(time.Hour)
		changed.Details.Version, changed.Details.ChangedAt = 2, Moment().UTC()
		changed.Details.FirstURL, changed.Details.URLChangedAt = old.URL, Moment().UTC()
		if err := s.Change(t.Context(), old, changed); err != nil {
			t.Fatal(err)
		}
		WantLink(t, s, changed)
		wantUnchanged(t, s, old, old)
		wantUnchanged(t, s, Link("missing"), changed)

		deleted := Deleted(changed, Moment())
		if err := s.Change(t.Context(), changed, deleted); err != nil {
			t.Fatal(err)
		}
		wantUnchanged(t, s, deleted, changed)
		WantLink(t, s, deleted)
		WantLink(t, s, Link(old.Code+"2"))
	}
}

func wantUnchanged(t *testing.T, s shortener.Store, old, changed shortener.Link) {
	t.Helper()
	if err := s.Change(t.Context(), old, changed); !errors.Is(err, shortener.ErrChanged) {
		t.Errorf("Change of %q from version %d: %v, want ErrChanged", old.Code, old.Version(), err)
	}
}

// testConcurrentChanges makes two changes of the same version of a link at the same time. Exactly one of the two
// changes must succeed.
func testConcurrentChanges(t *testing.T, s shortener.Store) {
	const versions = 20
	old := Owned("contested", 7)
	Insert(t, s, old)
	for range versions {
		var wins atomic.Pointer[shortener.Link]
		var changes sync.WaitGroup
		for i := range 2 {
			changes.Go(func() {
				changed := Owned(old.Code, 7)
				changed.Details.Version = old.Version() + 1
				changed.URL = fmt.Sprintf("https://%d.example/", i)
				err := s.Change(t.Context(), old, changed)
				if err == nil && !wins.CompareAndSwap(nil, &changed) {
					t.Error("two changes of one version succeeded")
				}
				if err != nil && !errors.Is(err, shortener.ErrChanged) {
					t.Error(err)
				}
			})
		}
		changes.Wait()
		if wins.Load() == nil {
			t.Fatal("no change succeeded")
		}
		old = *wins.Load()
		WantLink(t, s, old)
	}
}

// listed returns the codes of all pages of Newest. It also checks the length of each page, and that Lookup returns
// the same links.
func listed(t *testing.T, s shortener.Store, selection shortener.Selection) (codes []string) {
	t.Helper()
	for {
		page, next, err := s.Newest(t.Context(), selection)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page {
			if diff := gocmp.Diff(l, lookup(t, s, l.Code)); diff != "" {
				t.Fatalf("Newest and Lookup of %q differ (-newest +lookup):\n%s", l.Code, diff)
			}
			codes = append(codes, l.Code)
		}
		if len(page) > selection.Limit || next != "" && len(page) < selection.Limit {
			t.Fatalf("Newest returned %d links, want %d", len(page), selection.Limit)
		}
		if next == "" {
			return codes
		}
		selection.From = next
	}
}

func lookup(t *testing.T, s shortener.Store, code string) shortener.Link {
	t.Helper()
	l, err := s.Lookup(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testNewest lists links of both tables in pages of each length. Many of the links have the same creation time.
func testNewest(t *testing.T, s shortener.Store) {
	var links []shortener.Link
	for i, code := range []string{"aaa", "zzz", "a-b", "y_z", "bbb", "c-c", "ccc", "ddd", "d-d", "eee"} {
		l := Link(code)
		l.CreatedAt = l.CreatedAt.Add(time.Duration(i/4) * time.Microsecond)
		links = append(links, l)
	}
	for _, code := range []string{"zzy", "z_y"} { // an import accepts links with the last possible creation time
		l := Link(code)
		l.CreatedAt = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)
		links = append(links, l)
	}
	for group := range slices.Chunk(links, 3) {
		Insert(t, s, group...)
	}
	Insert(t, s, Link("aaa"), Link("aaa"))
	Delete(t, s, lookup(t, s, "ccc"))
	whole := listed(t, s, shortener.Selection{Limit: len(links) + 1})
	var times []time.Time
	for _, code := range whole {
		times = append(times, lookup(t, s, code).CreatedAt)
	}
	if !slices.IsSortedFunc(times, func(a, b time.Time) int { return b.Compare(a) }) {
		t.Errorf("the links %v were created at %v, want the newest first", whole, times)
	}
	if sorted := slices.Sorted(slices.Values(whole)); len(slices.Compact(sorted)) != len(links) {
		t.Errorf("Newest returned %v, want each link once", whole)
	}
	for limit := 1; limit <= len(links); limit++ {
		if diff := gocmp.Diff(whole, listed(t, s, shortener.Selection{Limit: limit})); diff != "" {
			t.Errorf("pages of %d links (-whole +pages):\n%s", limit, diff)
		}
	}
}

func testNewestOfOwner(t *testing.T, s shortener.Store) {
	Insert(t, s, Owned("aaa", 1), Owned("bbb", 2), Owned("c-c", 1), Link("ddd"), Owned("e-e", 2))
	got := listed(t, s, shortener.Selection{Owner: 1, Limit: 1})
	if diff := gocmp.Diff([]string{"aaa", "c-c"}, got); diff != "" {
		t.Errorf("the links of owner 1 (-want +got):\n%s", diff)
	}
}

// testNewestWithoutLinks lists an empty store from its beginning and from malformed positions.
func testNewestWithoutLinks(t *testing.T, s shortener.Store) {
	if got := listed(t, s, shortener.Selection{Limit: 10}); len(got) > 0 {
		t.Errorf("the links of an empty store are %v", got)
	}
	for _, position := range []string{"x", ".", "1", "1.", ".a", "-1.a", "1.0", "1.1 ", "zzzzzzzzzzzzzzzzz.1", "1." + strings.Repeat("a", 100)} {
		for _, owner := range []int64{0, 1} {
			_, _, err := s.Newest(t.Context(), shortener.Selection{Owner: owner, From: position, Limit: 10})
			if err != nil && !errors.Is(err, shortener.ErrPosition) {
				t.Errorf("Newest from %q: %v, want ErrPosition", position, err)
			}
		}
	}
	if _, _, err := s.Newest(t.Context(), shortener.Selection{From: "x", Limit: 10}); !errors.Is(err, shortener.ErrPosition) {
		t.Errorf("Newest from x: %v, want ErrPosition", err)
	}
}

// testOldest inserts links of both tables in several transactions, in a mixed order. Oldest must yield them in the
// order of their times and codes. Oldest must not yield a link that was inserted after Oldest began.
func testOldest(t *testing.T, s shortener.Store) {
	var want []shortener.Link
	for i, code := range []string{"zzz", "A", "Zz", "a-a", "aaa", "000000", "_"} {
		l := Owned(code, 7)
		l.CreatedAt = l.CreatedAt.Add(time.Duration(i/3) * time.Microsecond)
		want = append(want, l)
	}
	want[0], want[1] = Link(want[0].Code), Deleted(want[1], Moment())
	for i := range want {
		Insert(t, s, want[(i*3)%len(want)])
	}
	slices.SortFunc(want, func(a, b shortener.Link) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Code, b.Code))
	})
	var got []shortener.Link
	for link, err := range s.Oldest(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 { // the pass does not block a writer
			Insert(t, s, Link("zzzz"))
		}
		got = append(got, link)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("Oldest (-want +got):\n%s", diff)
	}
	for range s.Oldest(t.Context()) {
		break
	}
	WantLink(t, s, Link("zzzz")) // a pass that ends early releases its connection
}
