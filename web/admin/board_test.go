package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"keypool/web/httpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %q: %v", body, err)
	}
	return v
}

// board is an admin listener for which the test takes the samples.
type board struct {
	*Handler
	t       *testing.T
	url     string
	server  *httptest.Server
	sampler *sampler
	program *counted
	at      time.Time
}

// newBoard starts a listener whose history has this number of samples.
func newBoard(t *testing.T, samples int) *board {
	t.Helper()
	return newBoardAt(t, "127.0.0.1:0", samples)
}

func newBoardAt(t *testing.T, address string, samples int) *board {
	t.Helper()
	program := newCounted()
	a := New(Config{Gatherer: prometheus.NewRegistry(), Counters: program.counters(), Status: full, Instance: "test", RestartBelow: 200000, PageBelow: 100000})
	b := &board{Handler: a, t: t, program: program, sampler: &sampler{cfg: a.cfg, history: a.history}, at: time.Now().Add(-time.Hour)}
	b.sampler.begin(b.at)
	b.sample(samples)
	b.server = startServer(t, a, address)
	t.Cleanup(func() {
		a.history.end()
		b.server.Close()
	})
	b.url = b.server.URL
	return b
}

func startServer(t *testing.T, a *Handler, address string) *httptest.Server {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpserver.NewAdmin(a, slog.New(slog.DiscardHandler))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	return server
}

// sample takes n samples, a second apart.
func (b *board) sample(n int) {
	b.t.Helper()
	for range n {
		b.at = b.at.Add(sampleInterval)
		if err := b.sampler.sample(b.at); err != nil {
			b.t.Fatal(err)
		}
	}
}

// received is one event as a browser parses it.
type received struct{ id, name, data string }

// listener reads one stream.
type listener struct {
	t     *testing.T
	head  *http.Response
	lines *bufio.Scanner
}

// listen opens a stream. If last is not "", it sends last as Last-Event-ID.
func (b *board) listen(last string) *listener {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	b.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/events", http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return &listener{b.t, resp, bufio.NewScanner(resp.Body)}
}

// next returns the next event. A line holds a field of the event, and an empty line ends
// the event. ok is false at the end of the stream.
func (l *listener) next() (e received, ok bool) {
	for l.lines.Scan() {
		field, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.data != "" {
				return e, true
			}
		}
	}
	return received{}, false
}

// want reads n samples and the facts after them. It returns the ids of the samples.
func (l *listener) want(n int) (ids []string) {
	l.t.Helper()
	if ids = l.wantSome(); len(ids) != n {
		l.t.Fatalf("got %d samples before the facts, want %d", len(ids), n)
	}
	return ids
}

// wantSome reads one or more samples and the facts after them. It returns the ids of the samples. A running sampler
// may take several samples before the server sends them.
func (l *listener) wantSome() (ids []string) {
	l.t.Helper()
	for {
		e, ok := l.next()
		switch {
		case ok && e.name == "sample" && e.id != "":
			if s := decode[Sample](l.t, e.data); strconv.FormatInt(s.At, 10) != e.id {
				l.t.Fatalf("the sample of time %d has the id %s", s.At, e.id)
			}
			ids = append(ids, e.id)
		case ok && e.name == "facts" && e.id == "" && strings.Contains(e.data, `"fill":"81.2"`) && len(ids) > 0:
			return ids
		default:
			l.t.Fatalf("got the event %+v after %d samples, want samples and then the facts", e, len(ids))
		}
	}
}

func (l *listener) wantAbout() about {
	l.t.Helper()
	e, ok := l.next()
	if !ok || e.name != "about" {
		l.t.Fatalf("got the event %+v, want about as the first event", e)
	}
	return decode[about](l.t, e.data)
}

func newest(t *testing.T, h *history) Sample {
	t.Helper()
	events := h.after(0).events
	_, data, _ := strings.Cut(string(events[len(events)-1].text), "data: ")
	var s Sample
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits until n streams are open.
func (b *board) await(n int32) {
	b.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for b.streams.Load() != n {
		if time.Now().After(deadline) {
			b.t.Fatalf("%d streams are open, want %d", b.streams.Load(), n)
		}
		<-tick.C
	}
}

// drain reads events up to and including the next facts.
func (l *listener) drain() {
	l.t.Helper()
	for {
		e, ok := l.next()
		if !ok {
			l.t.Fatal("the stream ended")
		}
		if e.name == "facts" {
			return
		}
	}
}

// run runs the sampler until the test calls stop. stop returns after the sampler has ended.
func run(t *testing.T, a *Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
