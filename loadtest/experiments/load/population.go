package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// refreshEvery is how long a new link waits for its first visit.
const refreshEvery = 200 * time.Millisecond

// population is the set of links that visitors follow. It may be used concurrently.
type population struct {
	links atomic.Pointer[[]loadtest.Entry] // the newest first

	mu   sync.Mutex
	zipf *rand.Zipf // not for concurrent use
}

// populate takes the links that the run has created, and goes on to take new ones until the
// run is over.
func populate(s *run) *population {
	p := &population{}
	p.take(s.load)
	source := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // popularity is not a secret
	p.zipf = rand.NewZipf(source, zipfExponent, 1, uint64(max(p.size(), 1)-1))
	lab.Watch(s, refreshEvery, func(context.Context) (struct{}, error) { p.take(s.load); return struct{}{}, nil })
	return p
}

func (p *population) take(load *lab.Load) {
	entries := load.Entries()
	links := make([]loadtest.Entry, 0, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].State == loadtest.Acknowledged {
			links = append(links, entries[i])
		}
	}
	p.links.Store(&links)
}

func (p *population) size() int { return len(*p.links.Load()) }

// pick returns the link that the next visitor follows.
func (p *population) pick() loadtest.Entry {
	p.mu.Lock()
	rank := p.zipf.Uint64()
	p.mu.Unlock()
	return (*p.links.Load())[rank] // links are only added, so there are at least as many as at first
}
