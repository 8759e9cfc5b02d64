package fault

import (
	"slices"
	"sync"
	"time"
)

// state is a state of a link that a client requested.
type state struct {
	url   string
	sent  time.Time
	acked time.Time // zero if the request was not acknowledged
}

// history is a link with all states that a client requested and that may take effect, in the order of the requests.
type history struct {
	code  string
	fixed bool

	mu     sync.Mutex
	states []state
}

// request adds a state. A client must call it before it requests the state. The function
// acknowledge records that the request was acknowledged.
func (h *history) request(url string) (acknowledge func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.states)
	h.states = append(h.states, state{url: url, sent: time.Now()})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.states[n].acked = time.Now()
	}
}

// late judges a read that began at the given time and got the given URL. If states after the state
// with this URL were acknowledged before the read, late returns the time from the first of these
// acknowledgements to the read. Otherwise it returns 0. The result known is false if no client
// requested the URL for this link.
func (h *history) late(url string, began time.Time) (late time.Duration, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Several states can have the URL gone, because a client repeats a deletion until it is acknowledged. The latest of them
	// counts.
	for _, s := range slices.Backward(h.states) {
		if s.url == url {
			return late, true
		}
		if !s.acked.IsZero() {
			late = max(0, began.Sub(s.acked))
		}
	}
	return 0, false
}

// deleted reports whether the deletion of the link is acknowledged.
func (h *history) deleted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.states[len(h.states)-1]
	return last.url == gone && !last.acked.IsZero()
}
