package service

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
)

// assertState checks which state of a link the cache returns, and how many look-ups the store got in total.
func assertState(t *testing.T, r *rows, c *cache, want shortener.Link, lookups int) {
	t.Helper()
	link, err := c.get(t.Context(), want.Code)
	gone := !want.DeletedAt.IsZero()
	if gone != errors.Is(err, shortener.ErrGone) || !gone && (err != nil || link.URL != want.URL || link.Redirect() != want.Redirect()) {
		t.Errorf("get = %v, %v; want %v", link, err, want)
	}
	assertLookups(t, r, lookups)
}

// laterStates returns functions that turn a link into a later state of this link.
func laterStates() map[string]func(*shortener.Link) {
	return map[string]func(*shortener.Link){
		"changed": func(l *shortener.Link) {
			l.URL, l.Details = l.URL+"/new", &shortener.Details{Owner: 1, Version: 2, Redirect: 301}
		},
		"deleted":                     func(l *shortener.Link) { *l = l.Tombstone(time.Now()) },
		"deleted by an older release": func(l *shortener.Link) { l.DeletedAt = Stamp(time.Now()) },
	}
}

// withLaterStates runs the test for each later state of a link, in synctest bubbles.
func withLaterStates(t *testing.T, test func(t *testing.T, early, late shortener.Link)) {
	t.Helper()
	for name, change := range laterStates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				early := testLink("docs")
				late := early
				change(&late)
				test(t, early, late)
			})
		})
	}
}

// lagging returns replicas with this maximum lag, whose primary answers.
func lagging(maxLag time.Duration) Replicas {
	return Replicas{MaxLag: maxLag, Answered: func(now time.Time) time.Time { return now }}
}

// The primary stops before a replica gets a change. The cache keeps the change until the primary answers, and then for as
// long as the lag of a replica may explain the earlier state.
func TestCacheKeepsLaterStateWhilePrimaryDoesNotAnswer(t *testing.T) {
	t.Parallel()
	withLaterStates(t, func(t *testing.T, early, late shortener.Link) {
		r, c := newRows(early)
		stopped := time.Now().Add(Freshness / 2)
		c.replicas = Replicas{MaxLag: time.Second, Answered: func(time.Time) time.Time { return stopped }}
		c.put(late, time.Now())
		for lookups := 1; lookups <= 100; lookups++ {
			time.Sleep(Freshness)
			assertState(t, r, c, late, lookups)
		}
		c.replicas = lagging(time.Second)
		time.Sleep(Freshness)
		assertState(t, r, c, late, 101)
		time.Sleep(Freshness)
		assertState(t, r, c, early, 102)
	})
}

// The look-ups ask a replica that has a change, and then a replica that lags. The cache keeps the later state while the
// lag of the replica may explain the earlier state. After that time, the store must have lost the later state.
func TestCacheKeepsLaterStateWhileReplicaLags(t *testing.T) {
	t.Parallel()
	withLaterStates(t, func(t *testing.T, early, late shortener.Link) {
		r, c := newRows(late)
		c.replicas = lagging(time.Second)
		assertState(t, r, c, late, 1)
		r.set(func() { r.links["docs"] = early })
		for lookups := 2; lookups <= 3; lookups++ {
			time.Sleep(Freshness)
			assertState(t, r, c, late, lookups)
			assertState(t, r, c, late, lookups) // no look-up until Freshness has passed
		}
		time.Sleep(Freshness)
		assertState(t, r, c, early, 4)

		r.set(func() { r.links["docs"] = late })
		time.Sleep(Freshness)
		assertState(t, r, c, late, 5)
		time.Sleep(Freshness)
		assertState(t, r, c, late, 6) // found again, so the next look-ups may ask a replica that lags
		r.set(func() { r.links["docs"] = early })
		for lookups := 7; lookups <= 8; lookups++ {
			time.Sleep(Freshness)
			assertState(t, r, c, late, lookups)
		}
		time.Sleep(Freshness)
		assertState(t, r, c, early, 9)
	})
}

// A change may take long, for example because it waits for a lock. After its end, the cache keeps a slow change for as long
// as a fast change.
func TestCacheKeepsSlowChangeWhileReplicaLags(t *testing.T) {
	t.Parallel()
	withLaterStates(t, func(t *testing.T, early, late shortener.Link) {
		r, c := newRows(early)
		c.replicas = lagging(time.Second)
		begun := time.Now()
		time.Sleep(3 * time.Second)
		c.put(late, begun)
		assertState(t, r, c, late, 1)
		time.Sleep(Freshness)
		assertState(t, r, c, late, 2)
	})
}

// A change by this process counts like a state that a look-up returned.
func TestCacheKeepsOwnChangeWhileReplicaLags(t *testing.T) {
	t.Parallel()
	withLaterStates(t, func(t *testing.T, early, late shortener.Link) {
		r, c := newRows(early)
		c.replicas = lagging(time.Second)
		assertState(t, r, c, early, 1)
		c.put(late, time.Now())
		assertState(t, r, c, late, 1)
		time.Sleep(Freshness)
		assertState(t, r, c, late, 2)
	})
}

// In these cases, the result of a look-up replaces the link in the cache at once: there are no replicas, so the store has lost
// the later state; the result is another link with the same code; or the result is not an earlier state of the link.
func TestCacheReplacesStateThatNoLagExplains(t *testing.T) {
	t.Parallel()
	other := func(l *shortener.Link) { l.URL, l.CreatedAt = l.URL+"/other", l.CreatedAt.Add(-time.Hour) }
	same := func(l *shortener.Link) { l.URL, l.Details = l.URL+"/same", &shortener.Details{Version: 2} }
	for name, tt := range map[string]struct {
		maxLag time.Duration
		change func(*shortener.Link)
	}{
		"no replicas":                     {0, func(*shortener.Link) {}},
		"another link":                    {time.Minute, other},
		"another state with this version": {time.Minute, same},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				next := testLink("docs")
				present := next
				laterStates()["changed"](&present)
				tt.change(&next)
				r, c := newRows(present)
				c.replicas = lagging(tt.maxLag)
				assertState(t, r, c, present, 1)
				r.set(func() { r.links["docs"] = next })
				time.Sleep(Freshness)
				assertState(t, r, c, next, 2)
			})
		})
	}
}
