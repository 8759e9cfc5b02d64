package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	maxStreams    = 32               // at once; each is a screen, and a second one of its owner
	streamRetry   = 2                // seconds until one who was refused should come again
	sendTimeout   = 10 * time.Second // for one write; who takes longer is dropped
	sendBytes     = 16 << 10         // in one write
	keepAlive     = 15 * time.Second // of silence, after which a comment is sent
	reconnectTime = "retry: 1000\n"  // after how many ms a browser connects again
)

// about is the data of the "about" event, with which each stream begins: what stays as it
// is while the program runs.
type about struct {
	Page           string   `json:"page"`     // names this version of the page; another one is out of date
	Instance       string   `json:"instance"` // of the program, for people
	Parts          []string `json:"parts"`    // of the dashboard, that this program has
	CapacityKeys   *int64   `json:"capacity_keys,omitempty"`
	RestartBelow   int64    `json:"restart_below"` // keys in the pool
	PageBelow      int64    `json:"page_below"`    // keys in the pool
	HistorySeconds int      `json:"history_seconds"`
}

func (a *Admin) about() about {
	s := a.cfg.Status()
	return about{
		Page: a.shell.version, Instance: a.cfg.Instance, Parts: s.parts(), CapacityKeys: s.CapacityKeys,
		RestartBelow: a.cfg.RestartBelow, PageBelow: a.cfg.PageBelow, HistorySeconds: int(historySpan.Seconds()),
	}
}

// events streams the samples as server-sent events: "about", then each "sample" that came
// after Last-Event-ID (else all that are kept), and from then on one a second, each
// followed by "facts". It returns when the client goes or is too slow, or the samples end.
func (a *Admin) events(w http.ResponseWriter, r *http.Request) {
	if !a.enter() {
		w.Header().Set("Retry-After", strconv.Itoa(streamRetry))
		w.Header().Set("Cache-Control", "no-store")
		p := problem{typePrefix + "too-many-streams", "Too many dashboards", http.StatusServiceUnavailable,
			"As many dashboards as there may be at once are open. Please close one.", ""}
		a.report(writeJSON(w, mediaProblem, p.Status, p))
		return
	}
	defer a.streams.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects answers would collect this one for ever
	if r.Method == http.MethodHead {
		return
	}
	last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil { // none, or none of ours
		last = 0
	}
	s := &stream{w: w, control: http.NewResponseController(w), timeout: a.sendTimeout}
	if err := s.follow(r.Context(), a.about(), a.history, last); err != nil {
		a.cfg.Logger.DebugContext(r.Context(), "a dashboard is gone", "error", err)
	}
}

// enter counts one more stream unless there are too many. Who enters leaves.
func (a *Admin) enter() bool {
	if a.streams.Add(1) > maxStreams {
		a.streams.Add(-1)
		return false
	}
	return true
}

// stream is one answer to a browser that watches.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// follow sends what is and what comes after the event last. It returns an error when the
// client does not take it, and nil when the client has gone or nothing more will come.
func (s *stream) follow(ctx context.Context, is about, h *history, last int64) error {
	first, err := encodeEvent(reconnectTime+"event: about\n", is)
	if err != nil {
		return err
	}
	if err := s.send(first); err != nil {
		return err
	}
	for {
		n := h.after(last)
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

// sendNews sends events, and with the newest one what belongs to it.
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

// wait returns when there is more to send or ctx ends. Meanwhile it keeps the connection
// from looking dead to whatever it goes through.
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

// send writes text in parts, so that each gets its time on a slow line.
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
