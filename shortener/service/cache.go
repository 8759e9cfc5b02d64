package service

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"keypool/shortener"
)

// Freshness is the time for which the cache uses an answer of the store without another look-up. If another process
// deletes a link and the store answers, this process stops resolving the link within Freshness plus the lag of a replica.
const Freshness = 900 * time.Millisecond

// DefaultCacheSize is the default of Config.CacheSize. A cache of this size needs at most 31 MiB: 65,536 times LinkMemory, and
// 2 MiB for new links. It needs 16 MiB if the links are anonymous and have ordinary URLs.
const DefaultCacheSize = 1 << 16

// LinkMemory is the maximum memory of a cache in bytes, divided by its size (Config.CacheSize). The memory of new links
// (cache.created) does not count.
const LinkMemory = 464

const (
	// lookupTimeout is the time limit of one look-up. It is below one second, so that a failed
	// look-up gives the client status 503 within a second.
	lookupTimeout = 900 * time.Millisecond
	// createdSize is the maximum number of links in cache.created. It is a power of two. These links need at most
	// createdSize * LinkMemory bytes, which is less than 2 MiB.
	//
	// createdWays is the number of slots in each set of cache.created.
	createdSize = 4096
	createdWays = 4
	// entryUnit is a number of bytes. In the size of the cache, a link counts as one link, plus one link for
	// each entryUnit bytes of its code, its URL and its details together.
	entryUnit = 256
)

// errLookupPanicked is the error that the waiting callers get if the look-up panics.
var errLookupPanicked = errors.New("the look-up panicked")

// Resolve returns the live link of code. The returned link lacks its title, its tags, its first URL and ChangedAt. Resolve
// fails with ErrNotFound, ErrGone, ErrLinkBlocked or an *UnavailableError. It may return a deleted link for up to
// Freshness plus the lag of a replica after the deletion. While the store is unavailable, it may return a deleted link
// for longer. It never returns an expired link.
//
// Resolve waits for the store as follows:
//
//   - If no link can have the code ([shortener.IsCode]), Resolve does not wait.
//   - If this process looked up, created or changed the link less than 0.9 s (Freshness) ago, Resolve does not wait.
//   - If the cache has an older state of the link, and the last look-up in the part of the link failed, only about one
//     caller per second waits, for up to 0.9 s.
//   - In all other cases, Resolve waits up to 0.9 s for a look-up. If another caller started the look-up, and the look-up
//     finds no link, Resolve waits up to 0.9 s for a second look-up.
func (s *Service) Resolve(ctx context.Context, code string) (shortener.Link, error) {
	link, err := s.cache.get(ctx, code)
	if err == nil && s.destinations.Blocks(link.URL) {
		return shortener.Link{}, shortener.ErrLinkBlocked
	}
	return link, err
}

// cache keeps the links that the store returned, and the links that this process created or changed. It uses a link for 0.9 s
// (Freshness) without another look-up. After this time, the cache repeats the look-up, once for all callers that wait for the
// same code. While the store is unavailable, the cache returns an older link. If a code has no link, the cache does not keep
// this answer, because another process may create the link at any time, and then every process must find the link at once.
//
// The methods add and put store a link in the field created. The first successful look-up of the link moves the link to the
// field entries. This saves time: most new links are not followed at once, and an insertion in entries takes longer than an
// insertion in created. But if a link counts as several links in the size of the cache, add and put store it in entries:
// entries limits the memory of its links, and created limits only their number.
type cache struct {
	lookup    Lookup
	now       func() time.Time
	start     time.Time // the times in entries are durations since start
	entries   *otter.Cache[string, *entry]
	created   createdLinks
	placement shortener.Placement
	replicas  Replicas // the replicas that lookup asks
	failures  sync.Map // a *failure for each part of the store, by the number of the part

	mu    sync.Mutex
	calls map[string]*call // running look-ups, by code; put and add remove a look-up whose result is too old for the cache
}

// call is one look-up that several callers share.
//
// The cache does not use the type Group of golang.org/x/sync/singleflight. The method Do of Group
// ignores the context of a waiting caller. The method DoChan starts a goroutine per look-up and
// ends the process when the look-up panics. Neither method can discard a result that is older than
// a creation.
type call struct {
	done     chan struct{} // closed when entry and err are set
	entry    *entry
	err      error
	answered time.Duration // time from the start of the cache to the last answer of the primary before the look-up
}

// failure is the time of the last failed look-up in a part of the store, or the time at which storeDown let a caller try
// the store again. It is nil after a successful look-up.
type failure = atomic.Pointer[time.Time]

// newCache returns a cache for up to size links. Without its new links, the cache needs at most size times LinkMemory bytes,
// because a link with a long URL counts as several links.
func newCache(size int, lookup Lookup, placement shortener.Placement, now func() time.Time) *cache {
	if size <= 0 {
		size = DefaultCacheSize
	}
	return &cache{
		lookup:    lookup,
		now:       now,
		start:     now(),
		placement: placement,
		entries: otter.Must(&otter.Options[string, *entry]{
			MaximumWeight: uint64(size),
			Weigher:       func(_ string, e *entry) uint32 { return e.weight() },
		}),
		created: createdLinks{seed: maphash.MakeSeed()},
		calls:   make(map[string]*call),
	}
}

// get returns the live link of code. It fails with ErrNotFound or ErrGone, or with an *UnavailableError if the look-up
// fails and the cache has no link with this code.
func (c *cache) get(ctx context.Context, code string) (shortener.Link, error) {
	now := c.now()
	e, known := c.present(code)
	if !known && !shortener.IsCode(code) {
		return shortener.Link{}, shortener.ErrNotFound
	}
	if known && recent(c.start.Add(e.asked), now) {
		return e.answer(now)
	}
	failed := c.lastFailure(code)
	if known && storeDown(failed, now) {
		return e.answer(now)
	}
	fresh, joined, err := c.load(ctx, code, failed)
	if joined && err == nil && fresh.missing() {
		fresh, _, err = c.load(ctx, code, failed) // the link may have been created after the shared look-up began
	}
	switch {
	case err == nil:
		e = fresh
	case !known:
		return shortener.Link{}, unavailable(err)
	}
	return e.answer(c.now())
}

// present returns the entry that the cache has for code.
func (c *cache) present(code string) (e *entry, known bool) {
	if e, known = c.entries.GetIfPresent(code); !known {
		e, known = c.created.get(code)
	}
	return e, known
}

// recent reports whether less than Freshness has passed from t to now. A change of the wall clock has no effect, because
// time.Now also reads the monotonic clock.
func recent(t, now time.Time) bool { return now.Sub(t) < Freshness }

// lastFailure returns the record of the last failure in the part of code. The method get does not call lastFailure for a
// fresh link in the cache, because finding the part takes about as long as the rest of get.
func (c *cache) lastFailure(code string) *failure {
	part, _ := c.placement.PartOf(code)
	if failed, ok := c.failures.Load(part); ok {
		return failed.(*failure)
	}
	failed, _ := c.failures.LoadOrStore(part, new(failure))
	return failed.(*failure)
}

// storeDown returns true if the last look-up failed, so that the caller uses the older link in the cache and does not wait for
// the store. When 0.9 s (Freshness) have passed since the last attempt, storeDown returns false to one caller, which tries the
// store for all callers. Only requests for links in the cache call storeDown. So after the first failure, a store that hangs
// delays at most about one of these requests per second.
func storeDown(last *failure, now time.Time) bool {
	failed := last.Load()
	if failed == nil {
		return false
	}
	if recent(*failed, now) {
		return true
	}
	tried := now
	return !last.CompareAndSwap(failed, &tried)
}

// load looks code up in the store, or joins a running look-up of the same code. It records in last whether the look-up
// failed.
func (c *cache) load(ctx context.Context, code string, last *failure) (_ *entry, joined bool, _ error) {
	c.mu.Lock()
	shared, joined := c.calls[code]
	if !joined {
		// Copy the code, because it may share memory with a whole request line.
		code = strings.Clone(code)
		shared = &call{done: make(chan struct{}), err: errLookupPanicked}
		c.calls[code] = shared
	}
	c.mu.Unlock()
	if !joined {
		c.do(ctx, code, shared, last)
		return shared.entry, false, shared.err
	}
	select {
	case <-shared.done:
		return shared.entry, true, shared.err
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
}

// do runs the shared look-up on the goroutine of the first caller, for at most lookupTimeout. It continues after the context
// of this caller ends, because other callers may wait for the result.
func (c *cache) do(ctx context.Context, code string, shared *call, last *failure) {
	defer c.finish(code, shared)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	asked := c.now()
	if c.replicas.MaxLag > 0 {
		shared.answered = c.replicas.Answered(asked).Sub(c.start)
	}
	link, err := c.lookup(ctx, code)
	missing := errors.Is(err, shortener.ErrNotFound)
	concernsRow := errors.Is(err, shortener.ErrDetails) || errors.Is(err, shortener.ErrOtherOrder)
	if answered := err == nil || missing || concernsRow; !answered {
		failed := c.now()
		last.Store(&failed)
	} else if last.Load() != nil { // a read after every look-up is cheaper than a write
		last.Store(nil)
	}
	if err != nil && !missing {
		shared.err = err
		return
	}
	if missing {
		link = shortener.Link{}
	}
	shared.entry, shared.err = newEntry(link, asked.Sub(c.start)), nil
}

// finish stores the result of a look-up in the cache and wakes the callers that wait for the result. If add or put
// stored a link with this code during the look-up, finish does not store the result, because the result may be older
// than the stored link. The method latest handles the result of a replica that lags.
func (c *cache) finish(code string, shared *call) {
	c.mu.Lock()
	if c.calls[code] == shared {
		delete(c.calls, code)
		switch {
		case shared.err != nil:
		case shared.entry.missing():
			c.entries.Invalidate(code) // the cache may have a link that the store lost in a failover
			c.created.remove(code)
		default:
			if c.replicas.MaxLag > 0 {
				shared.entry = c.latest(shared.entry, shared.answered)
			}
			c.entries.Set(shared.entry.code(), shared.entry)
			c.created.remove(code)
		}
	}
	c.mu.Unlock()
	close(shared.done)
}

// latest returns the entry that the cache uses after a look-up. The parameter found is the result of the look-up, and answered
// is the time of the last answer of the primary before the look-up. latest usually returns found. But the look-up may have
// asked a replica that lacks a change, although the cache has the change already. A client that saw the change must not see the
// earlier state. So in this case, latest returns the later state, as if the look-up had returned this state.
//
// A failover may lose the later state, and then latest must return found. latest distinguishes the two cases by the age of
// the later state, which is the time since the cache got this state from a look-up or a change. While the primary answers,
// every replica that look-ups ask has all states that are older than the maximum lag. So if the later state is older than
// the maximum lag and the look-up did not find it, the store must have lost it. The time after the last answer of the
// primary does not count as age, because the replicas may then lag for longer.
//
// The code computes the age from the field asked, which is the start of the look-up or of the change. A look-up may return
// the state up to lookupTimeout later, so latest adds lookupTimeout to the maximum lag. A change may take longer, so put
// subtracts the duration of the change from the age.
func (c *cache) latest(found *entry, answered time.Duration) *entry {
	present, known := c.present(found.code())
	if !known || !present.follows(found) {
		return found
	}
	age := time.Duration(present.age)*time.Millisecond + max(0, min(found.asked, answered)-present.asked)
	if age >= c.replicas.MaxLag+lookupTimeout {
		return found
	}
	later := newEntry(present.link(), found.asked)
	later.age = int32(age.Milliseconds())
	return later
}

// add adds a link that this process has just created, and discards older answers for its code. The parameter asked is a
// time before the creation. Unlike put, add does not check whether the cache already has a later state of the link.
// The check would cost as much as the rest of add. If the link has changed already, get returns the first state of
// the link until Freshness has passed.
func (c *cache) add(link shortener.Link, asked time.Time) {
	e := newEntry(link, asked.Sub(c.start))
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, link.Code)
	if _, known := c.entries.GetIfPresent(link.Code); known {
		c.entries.Invalidate(link.Code) // an older link of this code that the store lost in a failover
	}
	c.store(e)
}

// put adds a link that this process changed or read, and discards older answers for its code. The parameter asked is a time
// before the change or the read. If two changes of a link end at the same time, their calls of put may come in the wrong
// order. The cache then keeps the later state.
func (c *cache) put(link shortener.Link, asked time.Time) {
	e := newEntry(link, asked.Sub(c.start))
	e.age = -int32(c.now().Sub(asked).Milliseconds()) // the replicas may lack the change for MaxLag after its end
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, link.Code)
	if present, known := c.present(link.Code); known {
		if e.olderThan(present) {
			return
		}
		c.entries.Invalidate(link.Code) // an earlier state, or an older link of this code that the store lost in a failover
	}
	c.store(e)
}

// store stores a new entry. The caller must hold c.mu, and must have removed the entry with the same code from entries.
func (c *cache) store(e *entry) {
	if e.weight() == 1 {
		c.created.put(e)
		return
	}
	c.entries.Set(e.code(), e)
	c.created.remove(e.code())
}

// createdLinks is a hash table of new links. Each code belongs to a set of four slots. The new links of a set get its slots in turn,
// so a link stays in the table at least until the fourth later link of its set. The table lacks one of the twenty newest links
// only if one of the 1024 sets gets five of them. The probability is about C(20,5)/1024^4, or 1 in 70 million. If each code
// belonged to one of 4096 slots, the probability would be about C(20,2)/4096, or 1 in 22. The method get may be called
// concurrently. The callers of put and remove hold the mutex of the cache.
type createdLinks struct {
	seed maphash.Seed
	sets [createdSize / createdWays]createdSet
}

type createdSet struct {
	slots [createdWays]atomic.Pointer[entry]
	next  uint8 // index of the slot that the next new link gets
}

func (t *createdLinks) set(code string) *createdSet {
	return &t.sets[maphash.String(t.seed, code)%uint64(len(t.sets))]
}

// find returns the entry with this code and its slot, or nil.
func (s *createdSet) find(code string) (*entry, *atomic.Pointer[entry]) {
	for i := range s.slots {
		if e := s.slots[i].Load(); e != nil && e.code() == code {
			return e, &s.slots[i]
		}
	}
	return nil, nil
}

func (t *createdLinks) get(code string) (*entry, bool) {
	e, _ := t.set(code).find(code)
	return e, e != nil
}

func (t *createdLinks) put(e *entry) {
	s := t.set(e.code())
	_, slot := s.find(e.code())
	if slot == nil {
		slot = &s.slots[s.next]
		s.next = (s.next + 1) % createdWays
	}
	slot.Store(e)
}

func (t *createdLinks) remove(code string) {
	if _, slot := t.set(code).find(code); slot != nil {
		slot.Store(nil)
	}
}
