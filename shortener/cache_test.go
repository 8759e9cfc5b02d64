package shortener

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("connection refused")

// rows is the look-up of a store, as the cache sees it. Time in these tests is that
// of a synctest bubble: nothing really sleeps, and a request that waits shows by how
// much the clock moved.
type rows struct {
	mu    sync.Mutex
	links map[string]Link
	away  error // what look-ups fail with
	asked int
	// gate, if set, holds each look-up back after it has read, until it is closed or the look-up's time is over.
	gate chan struct{}
}

func (r *rows) lookup(ctx context.Context, code string) (Link, error) {
	r.mu.Lock()
	r.asked++
	link, ok := r.links[code]
	away, gate := r.away, r.gate
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return Link{}, ctx.Err()
		}
	}
	switch {
	case away != nil:
		return Link{}, away
	case !ok:
		return Link{}, ErrNotFound
	}
	return link, nil
}

// set changes what look-ups see from now on.
func (r *rows) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// hold has look-ups read at once, and answer when open is called.
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

func testLink(code string) Link {
	return Link{Code: code, URL: "https://go.dev/" + code, Source: "pool", CreatedAt: stamp(time.Now())}
}

// newRows is a store that holds links, and a cache of ordinary size before it.
func newRows(links ...Link) (*rows, *cache) {
	r := &rows{links: make(map[string]Link)}
	for _, link := range links {
		r.links[link.Code] = link
	}
	return r, newCache(0, r.lookup, time.Now)
}

// assertGet resolves code and checks what came of it; want is nil for a link.
func assertGet(t *testing.T, c *cache, code string, want error) {
	t.Helper()
	link, err := c.get(t.Context(), code)
	if !errors.Is(err, want) || err == nil && link.Code != code {
		t.Errorf("get(%q) = %v, %v; want the error %v", code, link, err, want)
	}
	if refusal, ok := errors.AsType[*UnavailableError](err); ok && refusal.RetryAfter != time.Second {
		t.Errorf("the advice is to retry after %v, want a second", refusal.RetryAfter)
	}
}

func assertAsked(t *testing.T, r *rows, want int) {
	t.Helper()
	if got := r.count(); got != want {
		t.Errorf("the store was asked %d times, want %d", got, want)
	}
}

func TestCacheAsksOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		assertGet(t, c, "here", nil)
		time.Sleep(Freshness - 1)
		assertGet(t, c, "here", nil)
		assertAsked(t, r, 1)
		time.Sleep(time.Nanosecond)
		assertGet(t, c, "here", nil)
		assertAsked(t, r, 2)
	})
}

// What another process has made is there at once, also for one who asked before.
func TestCacheKeepsNoMiss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows()
		assertGet(t, c, "new", ErrNotFound)
		r.set(func() { r.links["new"] = testLink("new") })
		assertGet(t, c, "new", nil)
	})
}

// A link that a failover lost is not gone on with when the store is away again.
func TestCacheForgetsWhatTheStoreLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("lost"))
		assertGet(t, c, "lost", nil)
		r.set(func() { delete(r.links, "lost") })
		time.Sleep(Freshness)
		assertGet(t, c, "lost", ErrNotFound)
		r.set(func() { r.away = errAway })
		assertGet(t, c, "lost", errAway)
	})
}

func TestCacheSeesTheChangesOfOthersWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := testLink("here")
		r, c := newRows(link)
		assertGet(t, c, "here", nil)
		link.DeletedAt = stamp(time.Now())
		r.set(func() { r.links["here"] = link })
		time.Sleep(Freshness)
		assertGet(t, c, "here", ErrGone)
	})
}

func TestCacheCountsTheSecondFromTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		r.set(func() { r.gate = make(chan struct{}) })
		time.AfterFunc(Freshness/2, func() { close(r.gate) })
		assertGet(t, c, "here", nil)
		time.Sleep(Freshness / 2)
		assertGet(t, c, "here", nil)
		assertAsked(t, r, 2)
	})
}

func TestCacheNeverServesPastTheExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := testLink("brief")
		link.ExpiresAt = stamp(time.Now().Add(Freshness / 2))
		r, c := newRows(link)
		assertGet(t, c, "brief", nil)
		time.Sleep(Freshness/2 - time.Microsecond)
		assertGet(t, c, "brief", nil)
		time.Sleep(time.Microsecond)
		assertGet(t, c, "brief", ErrGone)
		assertAsked(t, r, 1)
		r.set(func() { r.away = errAway })
		time.Sleep(time.Hour)
		assertGet(t, c, "brief", ErrGone)
	})
}

func TestCacheAnswersImpossibleCodesByItself(t *testing.T) {
	t.Parallel()
	r, c := newRows()
	for _, code := range []string{"", strings.Repeat("a", maxCode+1), "a.b", "wp-login.php", "é", "a b", "a+"} {
		assertGet(t, c, code, ErrNotFound)
	}
	assertAsked(t, r, 0)
	assertGet(t, c, strings.Repeat("a", maxCode), ErrNotFound)
	assertAsked(t, r, 1)
}

func TestCacheAsksAgainWhenTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := testNow
	r, _ := newRows(testLink("here"))
	c := newCache(0, r.lookup, func() time.Time { return now })
	assertGet(t, c, "here", nil)
	now = now.Add(-time.Hour)
	assertGet(t, c, "here", nil)
	assertAsked(t, r, 2)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const size = 100
	c := newCache(size, nil, time.Now)
	for i := range 10 * size {
		link := testLink(fmt.Sprintf("code%d", i))
		link.URL += strings.Repeat("a", i%2*1500)
		c.put(link, time.Now())
	}
	c.entries.CleanUp()
	memory := 0
	for _, e := range c.entries.All() {
		memory += len(e.link.URL)
	}
	if n := c.entries.EstimatedSize(); n > size || memory > size*entryUnit {
		t.Errorf("%d links with %d bytes of URL are kept, want at most %d with %d", n, memory, size, size*entryUnit)
	}
}

func TestCacheHitDoesNotAllocate(t *testing.T) { // not parallel: it counts what the whole process allocates
	r, c := newRows(testLink("here"))
	got := testing.AllocsPerRun(1000, func() { assertGet(t, c, "here", nil) })
	if got != 0 {
		t.Errorf("%v allocations a hit, want none", got)
	}
	if r.count() > 10 {
		t.Errorf("the store was asked %d times: these were no hits", r.count())
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
