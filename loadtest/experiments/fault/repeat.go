package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

const (
	refLines    = 25 // lines of a bulk request
	repeaters   = 16 // requests in progress at the same time; each goes to both servers
	lostPart    = 7  // a proxy loses one of lostPart replies
	repeatLimit = 45 * time.Second
)

// repeatRows returns the fault rows in which clients repeat creations with an idempotency key until they get an answer.
func repeatRows() []row {
	claims := []claim{
		counted(kept, "unanswered keys and lost links", "Every creation is answered in the end, and its link is in the database."),
		counted(right, "different answers", "All answers of both servers to a creation contain the same link, also after a fault. "+
			"At the end, the clients send every creation again. Each answer then shows that the creation is a repetition, with the header Idempotency-Replayed or, in a bulk request, with the status 200."),
		counted(once, "further links", "Each idempotency key, and each ref of a line in a bulk request, creates exactly one link."),
		accountsClose(),
	}
	const how = "Clients send each creation to two servers at once and repeat it until both servers answer. Half of the creations are requests with an Idempotency-Key, " +
		"and the other half are lines with a ref in bulk requests. " +
		"A proxy in front of each server loses one of seven replies, completely or in part. "
	return []row{
		{
			Name: "fault/repeat", Title: "repeated creations while servers are killed, SQLite",
			Summary: how + "The servers are killed with SIGKILL in turn and started again.",
			Run:     inject(func(r *run) { r.embedded(); repeatCreations(r) }), Claims: claims, Controls: without(once, "first-key"),
		},
		{
			Name: "fault/repeatb", Title: "repeated creations while servers and PostgreSQL are killed",
			Summary: how + "The servers and PostgreSQL are killed with SIGKILL in turn and started again.",
			Run:     inject(func(r *run) { r.onlyPostgres(); repeatCreations(r) }), Claims: claims,
			Controls: slices.Concat(without(once, "first-key"), without(kept, "key-with-link")),
		},
	}
}

// repeated is a creation that clients repeat.
type repeated struct {
	key, url string

	mu      sync.Mutex
	code    string // the code in the first answer
	answers int
}

// got records an answer. The parameter code is the code of the link in the answer, or "" if the answer contains no link. got
// reports whether the answer contains the same link as the first answer.
func (a *repeated) got(code string) (same bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers++; a.answers == 1 {
		a.code = code
	}
	return code != "" && code == a.code
}

// repeating is the work of all clients of a row. Its methods may be called concurrently.
type repeating struct {
	*owner
	done atomic.Int64 // number of answered requests
	sent atomic.Int64 // number of requests, including repetitions

	mu        sync.Mutex
	different []string // descriptions of answers that contradict the request, or the first answer to the same creation
}

// differs records an answer that contradicts the request, or the first answer to the same creation.
func (p *repeating) differs(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.different = append(p.different, fmt.Sprintf(format, args...))
}

// creations returns n creations.
func creations(n int, prefix string) []*repeated {
	all := make([]*repeated, n)
	for i := range all {
		all[i] = &repeated{key: fmt.Sprintf("%s-%012d", prefix, i), url: fmt.Sprintf("https://example.com/%s/%d", prefix, i)}
	}
	return all
}

// single sends a creation with its Idempotency-Key. It reports whether the creation is answered.
func (p *repeating) single(ctx context.Context, server int, a *repeated, replay bool) bool {
	header := http.Header{"Idempotency-Key": {`"` + a.key + `"`}}
	answer, err := p.sendWith(ctx, server, http.MethodPost, "/shorten", header, object(map[string]any{"url": a.url}))
	if err != nil || again(answer.Status) {
		return false
	}
	link, err := linkIn(answer, http.StatusCreated)
	replayed := answer.Header.Get("Idempotency-Replayed") == "true"
	if same := a.got(link.Code); err != nil || !same || replay && !replayed {
		p.differs("the creation with the key %s was answered with the code %q instead of %q (marked as a repetition: %t, error: %v)", a.key, link.Code, a.code, replayed, err)
	}
	return true
}

// again reports whether a client must repeat a request that was answered with the given status: 503
// or 409. The status 409 means that another request with the same key is in progress.
func again(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusConflict
}

// bulk sends creations as lines of one request, each with its key as ref. It reports whether all lines are answered.
func (p *repeating) bulk(ctx context.Context, server int, lines []*repeated, replay bool) bool {
	var body strings.Builder
	for _, a := range lines {
		body.WriteString(object(map[string]any{"ref": a.key, "url": a.url}) + "\n")
	}
	header := http.Header{"Content-Type": {"application/x-ndjson"}}
	answer, err := p.sendWith(ctx, server, http.MethodPost, "/api/links", header, body.String())
	if err != nil || answer.Status != http.StatusOK {
		return false
	}
	complete := 0
	for text := range bytes.Lines(answer.Body) {
		var l struct {
			Line, Status int
			Link         ownedLink
		}
		if json.Unmarshal(text, &l) != nil || again(l.Status) {
			continue // the answer is cut, or the client must repeat the line
		}
		if l.Line < 1 || l.Line > len(lines) {
			p.differs("the answer to a bulk request of %d lines has the line number %d", len(lines), l.Line)
			return true
		}
		complete++
		a := lines[l.Line-1]
		if same := a.got(l.Link.Code); !same || l.Status != http.StatusCreated && l.Status != http.StatusOK || replay && l.Status != http.StatusOK {
			p.differs("the line with the ref %s was answered with status %d and the code %q, and the first answer had the code %q", a.key, l.Status, l.Link.Code, a.code)
		}
	}
	return complete == len(lines)
}

// request is a function that sends one request to a server. It reports whether the request is
// answered. If replay is true, the answer must show that the request is a repetition.
type request func(ctx context.Context, server int, replay bool) (answered bool)

// requests returns the requests that create all links: one for each of singles, and bulk requests for refs.
func (p *repeating) requests(singles, refs []*repeated) (all []request) {
	for _, a := range singles {
		all = append(all, func(ctx context.Context, server int, replay bool) bool { return p.single(ctx, server, a, replay) })
	}
	for i := 0; i < len(refs); i += refLines {
		lines := refs[i:min(i+refLines, len(refs))]
		all = append(all, func(ctx context.Context, server int, replay bool) bool { return p.bulk(ctx, server, lines, replay) })
	}
	return all
}

// perform sends each request to all servers at once, and repeats it until each server has answered or ctx ends.
func (p *repeating) perform(ctx context.Context, requests []request, replay bool) {
	var clients errgroup.Group
	clients.SetLimit(repeaters)
	for _, send := range requests {
		clients.Go(func() error {
			var servers sync.WaitGroup
			for server := range p.clients {
				servers.Go(func() {
					for p.sent.Add(1); !send(ctx, server, replay); p.sent.Add(1) {
						if !briefly(ctx, 50*time.Millisecond) {
							return
						}
					}
					p.done.Add(1)
				})
			}
			servers.Wait()
			return nil
		})
	}
	_ = clients.Wait() // the functions in the group return no error
}

// repeatCreations kills the servers while clients repeat creations. If the links are in PostgreSQL, it kills PostgreSQL too.
// Then the clients send every creation once more.
func repeatCreations(r *run) {
	servers := r.twoServers()
	p := &repeating{owner: r.ownerOf("repeater", servers...)}
	for i, s := range servers {
		proxy := lab.Proxy(r, strings.TrimPrefix(s.Public, "http://"))
		proxy.Lose(lostPart, 100*i, func(request []byte) bool { return bytes.HasPrefix(request, []byte(http.MethodPost)) })
		p.clients[i] = loadtest.NewClient("http://"+proxy.Addr, 0)
		r.Cleanup(p.clients[i].Close)
	}
	n := max(500, r.Times(10_000)) / 2
	singles, refs := creations(n, "key-of-a-request"), creations(n, "ref-of-a-line")
	all := p.requests(singles, refs)
	stop := r.beside(func(ctx context.Context) { p.perform(ctx, all, false) })
	strikes, expected := max(9, r.Times(45)), int64(len(all)*len(servers))
	for n := range strikes { // the kills are spread evenly over the requests
		p.awaitDone(r, expected*int64(n+1)/int64(strikes+2))
		r.strikeInTurn(n, servers, func() {}, func() {})
	}
	p.awaitDone(r, expected)
	stop()
	p.perform(r.Context(), all, true)
	p.end(r, servers, append(singles, refs...))
}

// awaitDone waits until n requests are answered. It ends the run if no further request is answered for repeatLimit.
func (p *repeating) awaitDone(r *run, n int64) {
	for done := p.done.Load(); done < n; done = p.done.Load() {
		if !lab.Happens(r, repeatLimit, func() bool { return p.done.Load() > done }) {
			r.Refute(kept, "after the answers to %d requests, no request was answered for %v", done, repeatLimit)
		}
	}
}

// end compares the answers with the links in the database.
func (p *repeating) end(r *run, servers []*lab.Program, all []*repeated) {
	codes := make(map[string][]string) // codes by URL
	r.Must(lab.Census(r.links)(r.Context(), func(code, url string) { codes[url] = append(codes[url], code) }))
	lost, further := 0, 0
	for _, a := range all {
		switch found := codes[a.url]; {
		case len(found) == 0:
			lost++
		case len(found) > 1:
			further += len(found) - 1
		case found[0] != a.code:
			p.differs("the creation with the key %s has the link %s, but its answer named %s", a.key, found[0], a.code)
		}
	}
	r.figure(kept, 0, float64(lost), "%d of %d keys have no link; the clients sent %d requests", lost, len(all), p.sent.Load())
	r.figure(right, 0, float64(len(p.different)), "%d answers are wrong%s", len(p.different), firstOf(p.different))
	r.figure(once, 0, float64(further), "%d links were stored in addition to one link for each of %d keys", further, len(all))
	r.record.Created = loadtest.Figures{Sent: int64(len(all)), Acknowledged: int64(len(all))}
	r.audit(servers[0])
	each(servers, (*lab.Program).Stop)
	r.audit(servers[0])
}
