package fault

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
)

// editing is the work of all clients of a row. Its methods may be called concurrently.
type editing struct {
	*owner
	availableSince atomic.Pointer[time.Time] // time at which the database became available; nil while it is down

	mu      sync.Mutex
	links   []*history
	figures loadtest.Figures    // figures of the changes
	wrong   map[string][]string // observations that contradict a claim, by the claim
	latest  time.Duration       // the longest time for which a server redirected to an old state
}

// contradicts records an observation that contradicts a claim.
func (e *editing) contradicts(claim, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrong[claim] = append(e.wrong[claim], fmt.Sprintf(format, args...))
}

// count adds one change to the figures.
func (e *editing) count(acknowledged bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.figures.Sent++
	if acknowledged {
		e.figures.Acknowledged++
	} else {
		e.figures.Unknown++
	}
}

// all returns the links that were created so far, including the deleted ones.
func (e *editing) all() []*history {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.links)
}

func (e *editing) changes() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.figures.Acknowledged
}

// run creates, edits and deletes links, one after the other, until ctx ends.
func (e *editing) run(ctx context.Context) {
	for ctx.Err() == nil {
		h, err := e.create(ctx)
		if err != nil {
			briefly(ctx, 100*time.Millisecond)
			continue
		}
		retitling, cancel := context.WithCancel(ctx)
		var other sync.WaitGroup
		other.Go(func() { e.retitle(retitling, h) })
		e.edit(ctx, h)
		cancel()
		other.Wait()
	}
}

// create creates a link. If the creation is not acknowledged, create returns an error, and the row ignores the link.
func (e *editing) create(ctx context.Context) (*history, error) {
	h := &history{fixed: mathrand.IntN(fixedPart) == 0} //nolint:gosec // the random number need not be secret
	url := "https://example.com/" + rand.Text()
	acknowledge := h.request(url)
	answer, err := e.send(ctx, e.any(), http.MethodPost, "/shorten", object(map[string]any{"url": url, "editable": !h.fixed}))
	if err != nil {
		return nil, err
	}
	link, err := linkIn(answer, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	acknowledge()
	h.code = link.Code
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links = append(e.links, h)
	return h, nil
}

// edit requests several changes of the URL of a link, and then deletes the link. If the link is fixed, the server must
// refuse the changes. Before each request, edit reads the link through the API.
func (e *editing) edit(ctx context.Context, h *history) {
	for n := 0; briefly(ctx, 20*time.Millisecond); n++ {
		e.find(ctx, h)
		switch {
		case n < perLink && h.fixed:
			e.refusesURL(ctx, h)
		case n < perLink:
			e.change(ctx, h, fmt.Sprintf("https://example.com/%s/%d", rand.Text(), n), http.MethodPatch, http.StatusOK)
		case h.deleted():
			return
		default:
			e.change(ctx, h, gone, http.MethodDelete, http.StatusNoContent)
		}
	}
}

// change requests a new state of a link: another URL, or the deletion. If the status of the answer is
// neither want nor 503, change records an observation that contradicts the claim kept.
func (e *editing) change(ctx context.Context, h *history, url, method string, want int) {
	acknowledge := h.request(url)
	body := ""
	if url != gone {
		body = object(map[string]any{"url": url})
	}
	answer, err := e.send(ctx, e.any(), method, "/api/links/"+h.code, body)
	done := err == nil && answer.Status == want
	if done {
		acknowledge()
	} else if err == nil && answer.Status != http.StatusServiceUnavailable {
		e.contradicts(kept, "%s of the link %s was answered with status %d instead of %d: %s", method, h.code, answer.Status, want, answer.Body)
	}
	e.count(done)
}

// refusesURL requests a change of the URL of a fixed link, which the server must refuse.
func (e *editing) refusesURL(ctx context.Context, h *history) {
	answer, err := e.send(ctx, e.any(), http.MethodPatch, "/api/links/"+h.code, object(map[string]any{"url": "https://example.com/" + rand.Text()}))
	if err == nil && answer.Status != http.StatusConflict && answer.Status != http.StatusServiceUnavailable {
		e.contradicts(fixedKept, "a request for another URL of the fixed link %s was answered with status %d instead of 409: %s", h.code, answer.Status, answer.Body)
	}
}

// retitle changes the title of a link again and again. For each change, the server reads the whole link and writes it
// back. If the server did not compare the version of the link, this write could undo a change of the URL.
func (e *editing) retitle(ctx context.Context, h *history) {
	for briefly(ctx, 10*time.Millisecond) {
		answer, err := e.send(ctx, e.any(), http.MethodPatch, "/api/links/"+h.code, object(map[string]any{"title": rand.Text()}))
		if err == nil && !slices.Contains([]int{http.StatusOK, http.StatusGone, http.StatusServiceUnavailable}, answer.Status) {
			e.contradicts(kept, "a request for another title of the link %s was answered with status %d instead of 200 or 410: %s", h.code, answer.Status, answer.Body)
		}
	}
}

// find reads a link through the API, which answers from the database. It reports whether there was an answer other than
// 503.
func (e *editing) find(ctx context.Context, h *history) bool {
	began := time.Now()
	answer, err := e.send(ctx, e.any(), http.MethodGet, "/api/links/"+h.code, "")
	if err != nil || answer.Status == http.StatusServiceUnavailable {
		return false
	}
	link, err := linkIn(answer, http.StatusOK)
	if err != nil {
		e.contradicts(kept, "the API gave a wrong answer for the link %s: %v", h.code, err)
		return true
	}
	if link.DeletedAt != "" {
		link.URL = gone
	}
	e.judge(h, link.URL, began, 0, "the API")
	return true
}

// follow follows a link through a server. It reports whether there was an answer other than 503.
func (e *editing) follow(ctx context.Context, server int, h *history) bool {
	since, began := e.availableSince.Load(), time.Now()
	status, location, err := e.clients[server].Follow(ctx, h.code)
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
		return false
	case status != http.StatusFound && status != http.StatusGone:
		e.contradicts(kept, "GET /%s was answered with status %d", h.code, status)
		return true
	}
	if since == nil || since != e.availableSince.Load() || began.Sub(*since) < 2*freshness {
		began = time.Time{} // accept every older state, because a server may use what it read before the database was killed
	}
	late := e.judge(h, location, began, generous, "a redirect")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latest = max(e.latest, late)
	return true
}

// judge checks the URL that a read got. It records an observation against a claim in two cases: no client requested
// this URL for the link, or the state with this URL was replaced before the read, and the time between the two is
// longer than the parameter limit. It returns how long before the read this state was replaced.
func (e *editing) judge(h *history, url string, began time.Time, limit time.Duration, what string) time.Duration {
	late, known := h.late(url, began)
	if known && late <= limit {
		return late
	}
	claim := right
	switch {
	case h.deleted():
		claim = staysGone
	case h.fixed:
		claim = fixedKept
	}
	problem := fmt.Sprintf("which was replaced %v before the request", late)
	if !known {
		problem = "which no client requested for this link"
	}
	e.contradicts(claim, "%s showed the URL %q of the link %s, %s", what, url, h.code, problem)
	return late
}

// read follows all links through one server again and again until ctx ends.
func (e *editing) read(ctx context.Context, server int) {
	for briefly(ctx, 10*time.Millisecond) {
		for _, h := range e.all() {
			if e.follow(ctx, server, h); !briefly(ctx, 2*time.Millisecond) {
				return
			}
		}
	}
}
