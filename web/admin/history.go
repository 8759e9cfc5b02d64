package admin

import (
	"slices"
	"sync"
	"time"
)

// historySpan is the time that the dashboard shows.
const historySpan = 15 * time.Minute

// event is one sample in the form in which streams send it.
type event struct {
	id   int64
	text []byte // immutable
}

// history holds the events of the last historySpan for all streams and wakes them for
// each new event. Streams read it at their own pace: a slow stream blocks nothing and
// keeps nothing in memory for itself. It is safe for concurrent use.
type history struct {
	mu     sync.Mutex
	events []event // oldest first
	facts  []byte  // describe the newest event; a stream that comes later gets newer ones
	more   chan struct{}
	over   bool
}

// historyLength is the number of events in a full history.
const historyLength = int(historySpan / sampleInterval)

func newHistory() *history {
	return &history{more: make(chan struct{})}
}

// add appends an event, whose id must exceed all ids before. A full history drops its
// oldest event.
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

// end ends all streams. Calls of add must not follow.
func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		close(h.more)
	}
}

// news holds the events that a stream has not sent yet.
type news struct {
	events []event
	facts  []byte
	more   <-chan struct{} // closed when the next event is there or the history ends
	over   bool            // the history has ended
}

// after returns the events with an id above last. When last exceeds every id, it comes
// from another process or from before the clock was set back: after returns all events.
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
