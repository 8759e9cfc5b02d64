package service

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
)

func TestCacheReturnsErrorForUncachedCodeWhileStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows()
		assertGet(t, c, "absent", shortener.ErrNotFound)
		time.Sleep(Freshness)
		r.set(func() { r.down = errDown })
		assertGet(t, c, "unknown", errDown)
		assertGet(t, c, "absent", errDown) // another process may have created the link
		r.set(func() { r.gate = make(chan struct{}) })
		start := time.Now()
		assertGet(t, c, "unknown", context.DeadlineExceeded)
		if waited := time.Since(start); waited != lookupTimeout {
			t.Errorf("get on a store that hangs took %v, want %v", waited, lookupTimeout)
		}
	})
}

func TestCacheServesOldLinksWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("one"), testLink("two"))
		assertGet(t, c, "one", nil)
		assertGet(t, c, "two", nil)
		r.set(func() { r.gate = make(chan struct{}) }) // never closed, so the store hangs
		time.Sleep(time.Hour)
		for range 3 {
			// One request tries the store and waits. Until Freshness has passed after this attempt, the
			// other requests do not wait.
			assertWait(t, c, "one", lookupTimeout)
			for range 10 {
				assertWait(t, c, "one", 0)
				assertWait(t, c, "two", 0)
			}
			time.Sleep(Freshness)
		}
		assertLookups(t, r, 2+3)
	})
}

func TestOnlyOneCacheRequestTriesUnavailableStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("one"), testLink("two"))
		assertGet(t, c, "one", nil)
		assertGet(t, c, "two", nil)
		r.set(func() { r.gate = make(chan struct{}) })
		time.Sleep(Freshness)
		assertWait(t, c, "one", lookupTimeout)
		time.Sleep(Freshness)
		var group sync.WaitGroup
		group.Go(func() { assertWait(t, c, "one", lookupTimeout) })
		synctest.Wait()
		assertWait(t, c, "one", 0)
		assertWait(t, c, "two", 0)
		group.Wait()
	})
}

// assertWait looks code up in the cache and checks how long the look-up took.
func assertWait(t *testing.T, c *cache, code string, want time.Duration) {
	t.Helper()
	start := time.Now()
	assertGet(t, c, code, nil)
	if waited := time.Since(start); waited != want {
		t.Errorf("get(%q) took %v, want %v", code, waited, want)
	}
}

func TestCacheDetectsDeletionsAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := testLink("one"), testLink("two")
		r, c := newRows(one, two)
		assertGet(t, c, "one", nil)
		assertGet(t, c, "two", nil)
		r.set(func() { r.down = errDown })
		time.Sleep(Freshness)
		assertGet(t, c, "one", nil)
		one.DeletedAt, two.DeletedAt = Stamp(time.Now()), Stamp(time.Now())
		r.set(func() { r.links["one"], r.links["two"], r.down = one, two, nil })
		time.Sleep(Freshness)
		assertGet(t, c, "one", shortener.ErrGone)
		assertGet(t, c, "two", shortener.ErrGone) // the first answer of the store ends the outage for all codes
	})
}
