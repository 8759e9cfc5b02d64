package service

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"keypool/shortener"
)

// TestCacheEntryRestoresLink checks that a link from the cache equals the link from the store, apart from the members that the
// cache does not keep.
func TestCacheEntryRestoresLink(t *testing.T) {
	t.Parallel()
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "never") {
			return time.Time{}
		}
		return time.UnixMicro(rapid.Int64Range(-1<<52, 1<<52).Draw(t, "microseconds")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		want := shortener.Link{
			Code: rapid.StringN(1, 64, -1).Draw(t, "code"), URL: rapid.String().Draw(t, "URL"), Source: rapid.String().Draw(t, "source"),
			CreatedAt: moment.Draw(t, "created"), ExpiresAt: moment.Draw(t, "expires"), DeletedAt: moment.Draw(t, "deleted"),
		}
		stored := want
		if rapid.Bool().Draw(t, "details") {
			want.Details = &shortener.Details{
				Owner: rapid.Int64().Draw(t, "owner"), Editable: rapid.Bool().Draw(t, "editable"), Version: rapid.Int64().Draw(t, "version"),
				Redirect: rapid.Int().Draw(t, "status"), Forward: shortener.Forward(rapid.String().Draw(t, "forward")),
			}
			details := *want.Details
			details.Title, details.Tags, details.ChangedAt = "title", []string{"tag"}, moment.Draw(t, "changed")
			if rapid.Bool().Draw(t, "URL has changed") {
				// An older release stored no URLChangedAt. The cache then contains ChangedAt instead.
				details.FirstURL, want.Details.URLChangedAt = "https://go.dev", details.ChangedAt
				if rapid.Bool().Draw(t, "time of the change is known") {
					details.URLChangedAt = details.ChangedAt.Add(-time.Hour)
					want.Details.URLChangedAt = details.URLChangedAt
				}
			}
			stored.Details = &details
		}
		if diff := cmp.Diff(want, newEntry(stored, time.Second).link()); diff != "" {
			t.Errorf("the link from the cache (-want +got):\n%s", diff)
		}
	})
}

// An entry must need at most 80 bytes, and an entry with details must need at most 224 bytes. Both numbers are size
// classes of the allocator.
func TestCacheEntriesFitSizeClassesOfAllocator(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(entry{}); got > 80 {
		t.Errorf("an entry has %d bytes, want at most 80", got)
	}
	if got := unsafe.Sizeof(detailedEntry{}); got > 224 {
		t.Errorf("an entry with details has %d bytes, want at most 224", got)
	}
}

// An entry and its details take one allocation. The text of the entry takes another allocation.
func TestCacheEntryNeedsTwoAllocations(t *testing.T) {
	link := testLink("here")
	for _, details := range []*shortener.Details{nil, {Owner: 1, Version: 2, FirstURL: "https://go.dev"}} {
		link.Details = details
		if got := testing.AllocsPerRun(100, func() { keep = newEntry(link, 0) }); got > 2 {
			t.Errorf("an entry with the details %v takes %v allocations, want at most 2", details, got)
		}
	}
}

var keep *entry

// TestCacheMemoryIsLimited fills caches with links whose URLs have several lengths: first with links without details, then with
// links with large details. Then it adds new links. This test is not parallel, because it measures the heap of the process.
func TestCacheMemoryIsLimited(t *testing.T) {
	const size = 20_000
	full := func() *shortener.Details {
		return &shortener.Details{
			Owner: 1, Version: 2, Title: strings.Repeat("a", 800), Tags: []string{strings.Repeat("a", 2048)}, FirstURL: strings.Repeat("a", 2048),
		}
	}
	for _, length := range []int{50, 110, 240, 2048} {
		for _, details := range []func() *shortener.Details{func() *shortener.Details { return nil }, full} {
			before := heap()
			c := newCache(size, func(_ context.Context, code string) (shortener.Link, error) {
				return shortener.Link{Code: code, URL: strings.Repeat("a", length), Details: details()}, nil
			}, shortener.OnePart{}, time.Now)
			for n := range size {
				assertGet(t, c, strconv.Itoa(1_000_000+n), nil)
			}
			c.entries.CleanUp()
			if got := (heap() - before) / size; got > LinkMemory {
				t.Errorf("URLs of %d bytes, details %t: %d bytes for each link, want at most %d", length, details() != nil, got, LinkMemory)
			}
			for n := range 4 * createdSize {
				c.add(shortener.Link{Code: strconv.Itoa(2_000_000 + n), URL: strings.Repeat("a", length), Details: details()}, time.Now())
			}
			c.entries.CleanUp()
			if got := (heap() - before) / (size + createdSize); got > LinkMemory {
				t.Errorf("URLs of %d bytes, details %t: %d bytes for each link with new links, want at most %d", length, details() != nil, got, LinkMemory)
			}
			runtime.KeepAlive(c)
		}
	}
}

// heap returns the size of the live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
