package web

import (
	"slices"
	"sync"
	"time"
)

// historySpan is how far back the dashboard shows.
const historySpan = 15 * time.Minute

// event is one sample, ready to be sent.
type event struct {
	id   int64
	text []byte // as the stream carries it, never changed
}

// history keeps the events of the last historySpan for all streams, and tells them of each
// new one. Streams take from it at their own pace: nothing waits for a slow one, and
// nothing is kept for it alone.
type history struct {
	mu     sync.Mutex
	events []event // oldest first
	facts  []byte  // what belongs to the newest event and is not sent later
	more   chan struct{}
	over   bool
}

// historyLength is how many events are kept.
const historyLength = int(historySpan / sampleInterval)

func newHistory() *history {
	return &history{more: make(chan struct{})}
}

// add appends an event, whose id is above all before it, and forgets the oldest of too many.
func (h *history) add(e event, facts []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == historyLength {
		h.events = slices.Delete(h.events, 0, 1)
	}
	h.events, h.facts = append(h.events, e), facts
	close(h.more)
	h.more = make(chan struct{})
}

// end tells the streams that nothing will follow. Nothing may be added after it.
func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		close(h.more)
	}
}

// news is what a stream has not sent yet.
type news struct {
	events []event
	facts  []byte
	more   <-chan struct{} // is closed when there is more
	over   bool            // there will be no more
}

// after gives the events with an id above last. One that is still to come was not given
// here, or before the clock was put back: then it gives all.
func (h *history) after(last int64) news {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := news{facts: h.facts, more: h.more, over: h.over}
	from := slices.IndexFunc(h.events, func(e event) bool { return e.id > last })
	switch {
	case from >= 0:
		n.events = slices.Clone(h.events[from:])
	case len(h.events) > 0 && last > h.events[len(h.events)-1].id:
		n.events = slices.Clone(h.events)
	}
	return n
}
