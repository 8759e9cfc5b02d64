package service

import (
	"sync"
	"sync/atomic"

	"keypool/shortener"
)

// maxAside is the maximum number of keys that are set aside. They need about 8 MiB. With two parts, one of which does not answer,
// a server sets as many keys aside as it creates links.
const maxAside = 1 << 17

// aside holds the keys of parts of the store that do not answer. Its methods may be called concurrently.
type aside struct {
	count atomic.Int64 // number of keys, readable without the lock

	mu   sync.Mutex
	keys map[int][]shortener.Key // by part
}

// put sets a key aside. It returns false if there is no room.
func (a *aside) put(part int, key shortener.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count.Load() >= maxAside {
		return false
	}
	if a.keys == nil {
		a.keys = make(map[int][]shortener.Key)
	}
	a.keys[part] = append(a.keys[part], key)
	a.count.Add(1)
	return true
}

// take returns a key of a part that answers and that fits, and its part.
func (a *aside) take(placement shortener.Placement, fits func(part int) bool) (key shortener.Key, part int, ok bool) {
	if a.count.Load() == 0 {
		return shortener.Key{}, 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, keys := range a.keys {
		last := len(keys) - 1
		if last < 0 {
			continue
		}
		key = keys[last]
		if part, answers := placement.PartOf(key.Code); answers && fits(part) { // the code may have moved to another part
			a.keys[at] = keys[:last]
			a.count.Add(-1)
			return key, part, true
		}
	}
	return shortener.Key{}, 0, false
}

// empty returns all keys and forgets them.
func (a *aside) empty() (all []shortener.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, keys := range a.keys {
		all = append(all, keys...)
	}
	a.keys = nil
	a.count.Store(0)
	return all
}
