package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"keypool/kgs"
)

// requests is a server that keeps what it was asked for.
type requests struct {
	server *httptest.Server

	mu   sync.Mutex
	seen map[string]int
}

// start serves until the test ends. key says of a request what is kept of it.
func (s *requests) start(t *testing.T, key func(*http.Request) string) (url string) {
	t.Helper()
	s.seen = make(map[string]int)
	s.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		k := key(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[k]++
	}))
	t.Cleanup(s.server.Close)
	return s.server.URL
}

// end waits for the requests that wrk has walked away from, and returns how often each came.
func (s *requests) end() map[string]int {
	s.server.Close()
	return s.seen
}

// The links that are asked for by chance are those that were filled in.
func TestRandomScript(t *testing.T) {
	t.Parallel()
	f := &filled{links: 200, codes: kgs.PlainSpace()}
	var s requests
	url := s.start(t, func(r *http.Request) string { return r.Method + " " + r.URL.Path })
	args := []string{strconv.FormatInt(f.links, 10), strconv.FormatInt(f.step(), 10), seed()}
	tally, err := testRun(t, "").load(t.Context(), wrk{url: url, script: "random", args: args})
	if err != nil {
		t.Fatal(err)
	}
	seen := s.end()
	for n := range f.links {
		delete(seen, "GET /"+f.code(n))
	}
	if len(seen) > 0 || tally.Requests < f.links {
		t.Errorf("%d requests, and some for what there is not: %v", tally.Requests, seen)
	}
}

func TestPostScript(t *testing.T) {
	t.Parallel()
	var s requests
	url := s.start(t, func(r *http.Request) string {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
	})
	once := creation(url)
	if _, err := testRun(t, "").load(t.Context(), wrk{url: once.url, script: "post", args: []string{once.body}}); err != nil {
		t.Fatal(err)
	}
	if want := "POST /shorten application/json " + once.body; len(s.end()) != 1 || s.seen[want] == 0 {
		t.Errorf("%v, want nothing but %q", s.seen, want)
	}
}
