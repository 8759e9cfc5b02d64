package admin

import (
	"slices"
	"sync"
	"time"
)

// historySpan is the length of the history that the dashboard shows.
const historySpan = 15 * time.Minute

// event is one sample, encoded as streams send it.
type event struct {
	id   int64
	text []byte // immutable
}

// history holds the events of the last historySpan for all streams. It wakes the streams
// for each new event. Each stream reads the history at its own pace, so a slow stream
// delays no other stream and needs no buffer. history is safe for concurrent use.
type history struct {
	mu     sync.Mutex
	events []event // oldest first
	facts  []byte  // facts of the newest event
	more   chan struct{}
	over   bool
}

// historyLength is the number of events in a full history.
const historyLength = int(historySpan / sampleInterval)

func newHistory() *history {
	return &history{more: make(chan struct{})}
}

// add appends an event. The id of the event must be above all earlier ids. If the history
// is full, add drops its oldest event.
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

// end ends all streams. add must not be called afterwards.
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
	more   <-chan struct{} // closed when the next event is added or the history ends
	over   bool            // the history has ended
}

// after returns the events with an id above last. If last is above every id, last is an id of
// another process, whose clock was ahead of the clock of this process. In this case, the
// result is all events.
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
