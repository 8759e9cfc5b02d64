package shortener

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// Freshness is how long an answer of the store may be given again without asking: the
// time within which every process sees that another one deleted a link.
const Freshness = time.Second

const (
	// lookupTimeout bounds one look-up, and with it the time until a 503.
	lookupTimeout = 900 * time.Millisecond
	// defaultCacheSize keeps the memory of a cache full of ordinary links at about 25 MiB.
	defaultCacheSize = 1 << 16
	// entryUnit is the length of URL, in bytes, that counts as one link of the cache's size.
	entryUnit = 512
)

// errLookupDied is what those waiting for a look-up see when it panicked.
var errLookupDied = errors.New("the look-up ended without an answer")

// entry is what the store said of one code. It is never changed.
type entry struct {
	link  Link      // the zero Link when the store had none
	asked time.Time // when the store was asked, not when it answered
}

func (e *entry) missing() bool { return e.link.Code == "" }

// answer is what the entry means at the moment now.
func (e *entry) answer(now time.Time) (Link, error) {
	switch {
	case e.missing():
		return Link{}, ErrNotFound
	case e.link.Gone(now):
		return Link{}, ErrGone
	}
	return e.link, nil
}

// cache keeps the links that the store gave for as long as Freshness; after that it asks
// again, once for all who wait for the same code. Only while the store is away does it go
// on with an older one. That a code has no link it never keeps: the next moment another
// process may have made one, which is not to be missing anywhere.
type cache struct {
	lookup  func(ctx context.Context, code string) (Link, error)
	now     func() time.Time
	entries *otter.Cache[string, *entry]
	// failed is when the store last failed to answer; nil while it answers.
	failed atomic.Pointer[time.Time]

	mu      sync.Mutex
	flights map[string]*flight // look-ups under way whose result is wanted
}

// flight is one look-up and those who wait for it.
type flight struct {
	done  chan struct{} // closed when entry and err are set
	entry *entry
	err   error
}

// newCache makes a cache of size links before lookup, which is [Store] Lookup; a link
// with a long URL counts as several, so that the size bounds the memory.
func newCache(size int, lookup func(context.Context, string) (Link, error), now func() time.Time) *cache {
	if size <= 0 {
		size = defaultCacheSize
	}
	return &cache{
		lookup: lookup,
		now:    now,
		entries: otter.Must(&otter.Options[string, *entry]{
			MaximumWeight: uint64(size),
			Weigher:       func(_ string, e *entry) uint32 { return uint32(1 + len(e.link.URL)/entryUnit) },
		}),
		flights: make(map[string]*flight),
	}
}

// get resolves code. It fails with ErrNotFound, ErrGone, or an *UnavailableError when
// the store is away and nothing is known of the code.
func (c *cache) get(ctx context.Context, code string) (Link, error) {
	now := c.now()
	e, known := c.entries.GetIfPresent(code)
	if !known && !plausible(code) {
		return Link{}, ErrNotFound
	}
	if known && (recent(e.asked, now) || c.storeAway(now)) {
		return e.answer(now)
	}
	fresh, joined, err := c.load(ctx, code)
	if joined && err == nil && fresh.missing() {
		fresh, _, err = c.load(ctx, code) // the link may be younger than the look-up that was joined
	}
	switch {
	case err == nil:
		e = fresh
	case !known:
		return Link{}, unavailable(err)
	}
	return e.answer(c.now())
}

// recent reports whether since lies less than Freshness back. A clock that was set
// back makes everything old rather than fresh for ever.
func recent(since, now time.Time) bool {
	age := now.Sub(since)
	return age >= 0 && age < Freshness
}

// storeAway reports whether the store failed just now, so that it is not worth
// waiting for. Once in a Freshness it tells one caller otherwise, who tries again
// for all the others: a store that hangs delays one request a second.
func (c *cache) storeAway(now time.Time) bool {
	failed := c.failed.Load()
	if failed == nil {
		return false
	}
	if recent(*failed, now) {
		return true
	}
	tried := now
	return !c.failed.CompareAndSwap(failed, &tried)
}

// load asks the store, or joins one who already does.
func (c *cache) load(ctx context.Context, code string) (_ *entry, joined bool, _ error) {
	c.mu.Lock()
	f, joined := c.flights[code]
	if !joined {
		// A copy, because the code may be a piece of a request line that it would keep in memory.
		code = strings.Clone(code)
		f = &flight{done: make(chan struct{}), err: errLookupDied}
		c.flights[code] = f
	}
	c.mu.Unlock()
	if !joined {
		c.fly(ctx, code, f)
		return f.entry, false, f.err
	}
	select {
	case <-f.done:
		return f.entry, true, f.err
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
}

// fly does the look-up of f on the goroutine of the first who asked. It does not end
// when that one gives up, for the sake of the others, but in time it is bounded.
func (c *cache) fly(ctx context.Context, code string, f *flight) {
	defer c.land(code, f)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	asked := c.now()
	link, err := c.lookup(ctx, code)
	if err != nil && !errors.Is(err, ErrNotFound) {
		failed := c.now()
		c.failed.Store(&failed)
		f.err = err
		return
	}
	if c.failed.Load() != nil {
		c.failed.Store(nil)
	}
	if err != nil {
		link = Link{}
	}
	f.entry, f.err = &entry{link: link, asked: asked}, nil
}

// land keeps the result of f, unless put has overtaken it: what the store
// said before a link was made must not hide that link afterwards.
func (c *cache) land(code string, f *flight) {
	c.mu.Lock()
	if c.flights[code] == f {
		delete(c.flights, code)
		switch {
		case f.err != nil:
		case f.entry.missing():
			c.entries.Invalidate(code) // a failover lost what was there
		default:
			c.entries.Set(code, f.entry)
		}
	}
	c.mu.Unlock()
	close(f.done)
}

// put enters a link that this process just made or read; asked is a moment before that.
func (c *cache) put(link Link, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, link.Code)
	link.Code = strings.Clone(link.Code) // a key is a piece of its batch's text
	c.entries.Set(link.Code, &entry{link: link, asked: asked})
}
