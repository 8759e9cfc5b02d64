package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"keypool/web/internal/reply"
)

const (
	maxStreams    = 32               // open streams; each stream serves one dashboard
	streamRetry   = 2                // Retry-After of a refused stream, in seconds
	sendTimeout   = 10 * time.Second // time limit of one write; a slower client is disconnected
	sendBytes     = 16 << 10         // maximum size of one write
	keepAlive     = 15 * time.Second // after this time without an event, a stream sends a comment
	reconnectTime = "retry: 1000\n"  // milliseconds until a browser reconnects
)

// about is the data of the "about" event, which is the first event of each stream. The data does
// not change while the program runs.
type about struct {
	Page           string   `json:"page"` // version of the page; a page with another version reloads itself
	Instance       string   `json:"instance"`
	Parts          []string `json:"parts"` // parts of the dashboard that this program has
	CapacityKeys   *int64   `json:"capacity_keys,omitempty"`
	RestartBelow   int64    `json:"restart_below"` // level in keys
	PageBelow      int64    `json:"page_below"`    // level in keys
	HistorySeconds int      `json:"history_seconds"`
}

func (h *Handler) about() about {
	s := h.cfg.Status()
	return about{
		Page: h.shell.Version, Instance: h.cfg.Instance, Parts: s.parts(), CapacityKeys: s.CapacityKeys,
		RestartBelow: h.cfg.RestartBelow, PageBelow: h.cfg.PageBelow, HistorySeconds: int(historySpan.Seconds()),
	}
}

// events sends the samples as server-sent events. The first event is "about". The next events are
// the samples after Last-Event-ID, or the whole history if this header is absent or malformed.
// After that, the stream gets one "sample" event per second. A "facts" event follows the newest
// sample. The stream ends when the client disconnects, when the client is too slow, or when the
// program stops and the history gets no more samples.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	if !h.openStream() {
		header.Set("Retry-After", strconv.Itoa(streamRetry))
		h.report(tooManyStreams().Write(w))
		return
	}
	defer h.streams.Add(-1)
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Accel-Buffering", "no") // nginx would buffer the endless answer
	if r.Method == http.MethodHead {
		return
	}
	last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil { // the header is absent or malformed, so send the whole history
		last = 0
	}
	s := &stream{w: w, control: http.NewResponseController(w), timeout: h.sendTimeout}
	if err := s.follow(r.Context(), h.about(), h.history, last); err != nil {
		h.cfg.Logger.DebugContext(r.Context(), "write to a dashboard's stream", "error", err)
	}
}

// openStream counts a new stream and returns true, or returns false if maxStreams streams
// are open. The caller ends a stream with streams.Add(-1).
func (h *Handler) openStream() bool {
	if h.streams.Add(1) > maxStreams {
		h.streams.Add(-1)
		return false
	}
	return true
}

func tooManyStreams() reply.Problem {
	return reply.Problem{
		Type: reply.TypePrefix + "too-many-streams", Title: "Too many dashboards", Status: http.StatusServiceUnavailable,
		Detail: "This program serves " + strconv.Itoa(maxStreams) + " open dashboards at most. Close one and try again.",
	}
}

// stream sends events to one dashboard.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// follow sends head and then each event with an id above last. It returns an error when a
// write fails, and nil when ctx or the history ends.
func (s *stream) follow(ctx context.Context, head about, events *history, last int64) error {
	first, err := encodeEvent(reconnectTime+"event: about\n", head)
	if err != nil {
		return err
	}
	if err := s.send(first); err != nil {
		return err
	}
	for {
		n := events.after(last)
		if err := s.sendNews(n); err != nil || n.over {
			return err
		}
		if len(n.events) > 0 {
			last = n.events[len(n.events)-1].id
		}
		if err := s.wait(ctx, n.more); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// sendNews sends the events of n together, followed by the facts.
func (s *stream) sendNews(n news) error {
	if len(n.events) == 0 {
		return nil
	}
	var text []byte
	for _, e := range n.events {
		text = append(text, e.text...)
	}
	return s.send(append(text, n.facts...))
}

// wait returns when more events can be sent or ctx ends. Until then it sends comments, so
// that no proxy closes the connection as idle.
func (s *stream) wait(ctx context.Context, more <-chan struct{}) error {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-more:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.send([]byte(":\n\n")); err != nil {
				return err
			}
		}
	}
}

// send writes text in parts. Each part has its own timeout, so that a client with a slow
// connection can receive a long text.
func (s *stream) send(text []byte) error {
	for part := range slices.Chunk(text, sendBytes) {
		if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
			return err
		}
		if _, err := s.w.Write(part); err != nil {
			return err
		}
		if err := s.control.Flush(); err != nil {
			return err
		}
	}
	return nil
}
