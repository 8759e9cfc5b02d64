package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
)

var errDown = errors.New("connection refused")

// rows is a store that only has look-ups. Most tests that use rows run in synctest bubbles. In a bubble,
// a sleep takes no real time, and the clock shows exactly how long a call blocked.
type rows struct {
	mu    sync.Mutex
	links map[string]shortener.Link
	down  error // if not nil, the error of each look-up
	asked int
	// gate, if not nil, blocks each look-up after its read, until gate is closed or the look-up times out.
	gate chan struct{}
}

// damaged is the code of a row that cannot be decoded. misplaced is a code whose look-up finds the row of another code.
const damaged, misplaced = "damaged", "misplaced"

func (r *rows) lookup(ctx context.Context, code string) (shortener.Link, error) {
	r.mu.Lock()
	r.asked++
	link, ok := r.links[code]
	down, gate := r.down, r.gate
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return shortener.Link{}, ctx.Err()
		}
	}
	switch {
	case down != nil:
		return shortener.Link{}, down
	case code == damaged:
		return shortener.Link{}, shortener.ErrDetails
	case code == misplaced:
		return shortener.Link{}, shortener.ErrOtherOrder
	case !ok:
		return shortener.Link{}, shortener.ErrNotFound
	}
	return link, nil
}

// set runs change, which changes the result of later look-ups.
func (r *rows) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// hold makes each later look-up read the store at once, but return only after the test calls open.
func (r *rows) hold() (open func()) {
	gate := make(chan struct{})
	r.set(func() { r.gate = gate })
	return func() { close(gate) }
}

func (r *rows) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// storeInCache is the method add or put of a cache.
type storeInCache func(c *cache, link shortener.Link, asked time.Time)

// forAddAndPut runs a test with each of the two methods, in synctest bubbles.
func forAddAndPut(t *testing.T, test func(*testing.T, storeInCache)) {
	t.Helper()
	for name, store := range map[string]storeInCache{"add": (*cache).add, "put": (*cache).put} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, store) })
		})
	}
}

func testLink(code string) shortener.Link {
	return shortener.Link{Code: code, URL: "https://go.dev/" + code, Source: "pool", CreatedAt: Stamp(time.Now())}
}

// newRows returns a store that holds links, and a cache of the default size that looks links up in this store.
func newRows(links ...shortener.Link) (*rows, *cache) {
	r := &rows{links: make(map[string]shortener.Link)}
	for _, link := range links {
		r.links[link.Code] = link
	}
	return r, newCache(0, r.lookup, shortener.OnePart{}, time.Now)
}

// assertGet resolves code and checks the error. If want is nil, get must return the link.
func assertGet(t *testing.T, c *cache, code string, want error) {
	t.Helper()
	link, err := c.get(t.Context(), code)
	if !errors.Is(err, want) || err == nil && link.Code != code {
		t.Errorf("get(%q) = %v, %v; want the error %v", code, link, err, want)
	}
	if u, ok := errors.AsType[*shortener.UnavailableError](err); ok && u.RetryAfter != time.Second {
		t.Errorf("RetryAfter is %v, want a second", u.RetryAfter)
	}
}

func assertLookups(t *testing.T, r *rows, want int) {
	t.Helper()
	if got := r.count(); got != want {
		t.Errorf("the store got %d look-ups, want %d", got, want)
	}
}

func TestCacheLooksUpLinkAgainAfterFreshness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		assertGet(t, c, "here", nil)
		time.Sleep(Freshness - 1)
		assertGet(t, c, "here", nil)
		assertLookups(t, r, 1)
		time.Sleep(time.Nanosecond)
		assertGet(t, c, "here", nil)
		assertLookups(t, r, 2)
	})
}

// The cache immediately finds a link that another process created, even if an earlier look-up of the
// code found no link.
func TestCacheDoesNotKeepNotFoundResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows()
		assertGet(t, c, "new", shortener.ErrNotFound)
		r.set(func() { r.links["new"] = testLink("new") })
		assertGet(t, c, "new", nil)
	})
}

// The cache does not serve a link that the store lost in a failover, even during the next outage.
func TestCacheForgetsLinksThatTheStoreLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("lost"))
		assertGet(t, c, "lost", nil)
		r.set(func() { delete(r.links, "lost") })
		time.Sleep(Freshness)
		assertGet(t, c, "lost", shortener.ErrNotFound)
		r.set(func() { r.down = errDown })
		assertGet(t, c, "lost", errDown)
	})
}

// A row that cannot be decoded or that has another code is not an outage of the store. So such a row does not delay the
// detection of a deletion.
func TestCacheDetectsDeletionsWithinASecond(t *testing.T) {
	t.Parallel()
	for name, besides := range map[string]map[string]error{
		"one link": nil, "a damaged row": {damaged: shortener.ErrDetails}, "a misplaced row": {misplaced: shortener.ErrOtherOrder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				link := testLink("here")
				r, c := newRows(link)
				assertGet(t, c, "here", nil)
				link.DeletedAt = Stamp(time.Now())
				r.set(func() { r.links["here"] = link })
				time.Sleep(Freshness)
				for code, want := range besides {
					assertGet(t, c, code, want)
				}
				assertGet(t, c, "here", shortener.ErrGone)
			})
		})
	}
}

func TestCacheMeasuresFreshnessFromTheStartOfTheLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		r.set(func() { r.gate = make(chan struct{}) })
		time.AfterFunc(Freshness/2, func() { close(r.gate) })
		assertGet(t, c, "here", nil)
		time.Sleep(Freshness / 2)
		assertGet(t, c, "here", nil)
		assertLookups(t, r, 2)
	})
}

func TestCacheNeverServesExpiredLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := testLink("brief")
		link.ExpiresAt = Stamp(time.Now().Add(Freshness / 2))
		r, c := newRows(link)
		assertGet(t, c, "brief", nil)
		time.Sleep(Freshness/2 - time.Microsecond)
		assertGet(t, c, "brief", nil)
		time.Sleep(time.Microsecond)
		assertGet(t, c, "brief", shortener.ErrGone)
		assertLookups(t, r, 1)
		r.set(func() { r.down = errDown })
		time.Sleep(time.Hour)
		assertGet(t, c, "brief", shortener.ErrGone)
	})
}

func TestCacheAnswersInvalidCodesWithoutALookup(t *testing.T) {
	t.Parallel()
	r, c := newRows()
	for _, code := range []string{"", strings.Repeat("a", 65), "a.b", "wp-login.php", "é", "a b", "a+"} {
		assertGet(t, c, code, shortener.ErrNotFound)
	}
	assertLookups(t, r, 0)
	assertGet(t, c, strings.Repeat("a", 64), shortener.ErrNotFound)
	assertLookups(t, r, 1)
}

func TestCacheSizeIsLimited(t *testing.T) {
	t.Parallel()
	const size = 100
	c := newCache(size, func(_ context.Context, code string) (shortener.Link, error) {
		link := testLink(code)
		link.URL += strings.Repeat("a", len(code)%2*1500)
		return link, nil
	}, shortener.OnePart{}, time.Now)
	for i := range 10 * size {
		assertGet(t, c, fmt.Sprintf("code%d", i), nil)
	}
	c.entries.CleanUp()
	memory := 0
	for _, e := range c.entries.All() {
		memory += len(e.text)
	}
	if n := c.entries.EstimatedSize(); n > size || memory > size*entryUnit {
		t.Errorf("the cache has %d links with %d bytes of codes and URLs, want at most %d links with %d bytes", n, memory, size, size*entryUnit)
	}
}

func TestCacheKeepsCreatedLinkUntilFirstSuccessfulLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := testLink("new")
		r, c := newRows(link)
		r.set(func() { r.down = errDown })
		c.put(link, time.Now())
		assertGet(t, c, "new", nil)
		assertLookups(t, r, 0)
		time.Sleep(time.Hour)
		assertGet(t, c, "new", nil)
		if _, created := c.created.get("new"); !created {
			t.Error("the cache lost the link after a look-up that failed")
		}
		r.set(func() { r.down = nil })
		time.Sleep(Freshness)
		assertGet(t, c, "new", nil)
		if _, created := c.created.get("new"); created {
			t.Error("the link still takes a slot after its first look-up")
		}
	})
}

// A failover of the store may lose a link. Then another user can create its alias again.
func TestCachePrefersCreatedLinkToOlderLinkWithSameCode(t *testing.T) {
	t.Parallel()
	forAddAndPut(t, func(t *testing.T, store storeInCache) {
		older, newer := testLink("alias"), testLink("alias")
		newer.URL += "newer"
		r, c := newRows(older)
		assertGet(t, c, "alias", nil)
		r.set(func() { r.links["alias"] = newer })
		store(c, newer, time.Now())
		for range 2 {
			if link, err := c.get(t.Context(), "alias"); err != nil || link.URL != newer.URL {
				t.Errorf("get = %v, %v; want the newer link", link, err)
			}
			time.Sleep(Freshness)
		}
		r.set(func() { delete(r.links, "alias") })
		store(c, newer, time.Now().Add(-Freshness))
		assertGet(t, c, "alias", shortener.ErrNotFound)
		r.set(func() { r.down = errDown })
		assertGet(t, c, "alias", errDown)
	})
}

// If two changes of a link end at the same time, the later version may reach the cache before the earlier version.
func TestCacheKeepsLaterVersionOfChangedLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		version := func(n int64) shortener.Link {
			l := testLink("docs")
			l.CreatedAt, l.URL, l.Details = Stamp(time.Unix(0, 0)), fmt.Sprintf("https://go.dev/%d", n), &shortener.Details{Owner: 1, Version: n}
			return l
		}
		r, c := newRows(version(1))
		begun := time.Now()
		wantURL := func(when string, want shortener.Link) {
			t.Helper()
			if link, err := c.get(t.Context(), "docs"); err != nil || link.URL != want.URL {
				t.Errorf("%s: get = %v, %v; want %s", when, link.URL, err, want.URL)
			}
		}
		time.Sleep(time.Millisecond)
		c.put(version(3), time.Now())
		c.put(version(2), begun)
		wantURL("after the earlier of two changes", version(3))

		r.set(func() { r.links["docs"] = version(3) })
		time.Sleep(Freshness)
		wantURL("after a look-up", version(3))
		c.put(version(2), begun)
		wantURL("after the earlier change and a look-up", version(3))

		time.Sleep(time.Millisecond)
		c.put(version(2), time.Now())
		wantURL("after a change in a store that lost version 3", version(2))

		began := time.Now()
		time.Sleep(time.Millisecond)
		c.put(version(3), time.Now())
		other := version(1)
		other.CreatedAt = Stamp(time.Unix(1, 0))
		c.put(other, began)
		wantURL("after the creation of another link with the code", other)
	})
}

// While the database is down, only links in the cache redirect. The newest links must be in the cache, because their creators may
// follow them at once.
func TestCacheKeepsNewestCreatedLinks(t *testing.T) {
	t.Parallel()
	c := newCache(0, nil, shortener.OnePart{}, time.Now)
	for i := range 10 * createdSize {
		link := testLink(fmt.Sprintf("code%d", i))
		c.add(link, time.Now())
		if e, known := c.created.get(link.Code); !known || e.link() != link {
			t.Fatalf("the newest link %q is not in the table", link.Code)
		}
		for older := max(0, i-8); older < i; older++ {
			if _, known := c.created.get(fmt.Sprintf("code%d", older)); !known {
				t.Fatalf("link %d is not in the table after link %d was created", older, i)
			}
		}
	}
	if _, known := c.created.get("code0"); known {
		t.Error("the table has more links than its size")
	}
	if n := c.entries.EstimatedSize(); n != 0 {
		t.Errorf("%d links that were never looked up are in entries", n)
	}
}

func TestCacheHitDoesNotAllocate(t *testing.T) { // not parallel, because AllocsPerRun counts the allocations of the whole process
	r, c := newRows(testLink("here"))
	got := testing.AllocsPerRun(1000, func() { assertGet(t, c, "here", nil) })
	if got != 0 {
		t.Errorf("%v allocations per hit, want none", got)
	}
	if r.count() > 10 {
		t.Errorf("the store got %d look-ups, so some calls were not cache hits", r.count())
	}
}

func BenchmarkCacheHit(b *testing.B) {
	_, c := newRows(testLink("here"))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.get(b.Context(), "here"); err != nil {
				b.Error(err)
			}
		}
	})
}
