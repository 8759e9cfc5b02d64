package commit

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener"
)

// maxAside is the maximum number of keys that are set aside. This number of keys needs about 8 MiB. If one of two
// parts does not answer, a server sets aside about one key for each link that it creates. So it can create about 131,000
// links before it reaches this number.
const maxAside = 1 << 17

// errNoRoom is the reason why put settles a key as lost.
var errNoRoom = errors.New("too many keys are set aside")

// setAsideKeys holds the keys that are set aside: keys that creations drew and did not use, for example because the part
// of the key does not answer. A key stays here until take returns the key or close settles the key. The methods may be
// called concurrently.
type setAsideKeys struct {
	gauge prometheus.Gauge
	count atomic.Int64 // number of keys, readable without the lock

	mu     sync.Mutex
	keys   map[int][]shortener.Key // by the part to which they belonged when they were set aside
	closed bool
}

// put sets a key of a part aside. If there is no room, or after close, put settles the key instead. It drops a key without a
// batch, because nothing records such a key.
func (a *setAsideKeys) put(part int, key shortener.Key) {
	if key.Batch == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		settle(key, shortener.ErrNotWritten)
	case a.count.Load() >= maxAside:
		settle(key, errNoRoom)
	default:
		if a.keys == nil {
			a.keys = make(map[int][]shortener.Key)
		}
		a.keys[part] = append(a.keys[part], key)
		a.count.Add(1)
		a.gauge.Inc()
	}
}

// take returns a key whose part of the store answers and fits the link (see search.fits), and returns this part. If there is no such
// key, ok is false. The caller must settle the key or set it aside again.
func (a *setAsideKeys) take(s *search) (key shortener.Key, part int, ok bool) {
	if a.count.Load() == 0 {
		return shortener.Key{}, noPart, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, keys := range a.keys {
		last := len(keys) - 1
		if last < 0 {
			continue
		}
		key = keys[last]
		if part, answers := s.parts.Placement.PartOf(key.Code); answers && s.fits(part) { // the code may have moved to another part
			keys[last] = shortener.Key{}
			a.keys[at] = keys[:last]
			a.count.Add(-1)
			a.gauge.Dec()
			return key, part, true
		}
	}
	return shortener.Key{}, noPart, false
}

// close returns all keys to their batches.
func (a *setAsideKeys) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, keys := range a.keys {
		for _, key := range keys {
			settle(key, shortener.ErrNotWritten)
		}
	}
	a.keys = nil
	a.count.Store(0)
	a.gauge.Set(0)
}
