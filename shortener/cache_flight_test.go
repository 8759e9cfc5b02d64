package shortener

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheAsksOnceForAllWhoWait(t *testing.T) {
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
		assertAsked(t, r, 1)
	})
}

func TestCacheLookupOutlivesWhoAskedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows(testLink("here"))
		open := r.hold()
		var group sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := c.get(ctx, "here"); err != nil {
				t.Errorf("the first who asked got the error %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() { assertGet(t, c, "here", nil) })
		group.Go(func() {
			if _, err := c.get(ctx, "here"); !errors.Is(err, context.Canceled) {
				t.Errorf("one who left while waiting got the error %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		open()
		group.Wait()
		assertAsked(t, r, 1)
	})
}

func TestCacheDoesNotHideALinkMadeDuringAMiss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows()
		open := r.hold()
		var group sync.WaitGroup
		group.Go(func() { assertGet(t, c, "new", ErrNotFound) })
		synctest.Wait() // the miss is read and held back
		link := testLink("new")
		r.set(func() { r.links["new"] = link })
		c.put(link, time.Now())
		open()
		group.Wait()
		assertGet(t, c, "new", nil)
		assertAsked(t, r, 1)
	})
}

// One who asks after the link was made does not get what one found who asked before.
func TestCacheSharesNoMiss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := newRows()
		open := r.hold()
		var group sync.WaitGroup
		group.Go(func() { assertGet(t, c, "new", ErrNotFound) })
		synctest.Wait() // the miss is read and held back
		r.set(func() { r.links["new"] = testLink("new") })
		for range 32 {
			group.Go(func() { assertGet(t, c, "new", nil) })
		}
		synctest.Wait()
		open()
		group.Wait()
	})
}

func TestCacheReleasesThoseWhoWaitForAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := newCache(0, func(context.Context, string) (Link, error) {
			<-gate
			panic("a bug in the store")
		}, time.Now)
		var group sync.WaitGroup
		group.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, err := c.get(t.Context(), "code")
			t.Errorf("get returned, with the error %v", err)
		})
		synctest.Wait()
		group.Go(func() { assertGet(t, c, "code", errLookupDied) })
		synctest.Wait()
		close(gate)
		group.Wait()
	})
}
