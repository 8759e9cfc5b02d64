package service

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
)

func TestConcurrentCacheCallersShareOneLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		open := r.hold()
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() { assertGet(t, c, "here", nil) })
		}
		synctest.Wait()
		open()
		group.Wait()
		assertLookups(t, r, 1)
	})
}

func TestSharedLookupContinuesAfterFirstCallerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		open := r.hold()
		var group sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := c.get(ctx, "here"); err != nil {
				t.Errorf("the first caller: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() { assertGet(t, c, "here", nil) })
		group.Go(func() {
			if _, err := c.get(ctx, "here"); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller whose context ended: %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		open()
		group.Wait()
		assertLookups(t, r, 1)
	})
}

func TestCacheFindsLinkCreatedDuringLookup(t *testing.T) {
	t.Parallel()
	forAddAndPut(t, func(t *testing.T, store storeInCache) {
		r, c := newRows()
		open := r.hold()
		var group sync.WaitGroup
		group.Go(func() { assertGet(t, c, "new", shortener.ErrNotFound) })
		synctest.Wait() // the look-up has read the store and waits
		link := testLink("new")
		r.set(func() { r.links["new"] = link })
		store(c, link, time.Now())
		open()
		group.Wait()
		assertGet(t, c, "new", nil)
		assertLookups(t, r, 1)
	})
}

// A caller that arrives after the creation of a link must not get the result of a look-up
// that began before the creation.
func TestLookupAfterCreationIgnoresEarlierNotFoundResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows()
		open := r.hold()
		var group sync.WaitGroup
		group.Go(func() { assertGet(t, c, "new", shortener.ErrNotFound) })
		synctest.Wait() // the look-up has read the store and waits
		r.set(func() { r.links["new"] = testLink("new") })
		for range 32 {
			group.Go(func() { assertGet(t, c, "new", nil) })
		}
		synctest.Wait()
		open()
		group.Wait()
	})
}

func TestCacheReleasesWaitingCallersWhenLookupPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := newCache(0, func(context.Context, string) (shortener.Link, error) {
			<-gate
			panic("a bug in the store")
		}, shortener.OnePart{}, time.Now)
		var group sync.WaitGroup
		group.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("get did not pass the panic on")
				}
			}()
			_, err := c.get(t.Context(), "code")
			t.Errorf("get returned %v, want a panic", err)
		})
		synctest.Wait()
		group.Go(func() { assertGet(t, c, "code", errLookupPanicked) })
		synctest.Wait()
		close(gate)
		group.Wait()
	})
}
