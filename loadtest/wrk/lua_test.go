package wrk

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// requests is a server that counts what it was asked for.
type requests struct {
	server *httptest.Server

	mu   sync.Mutex
	seen map[string]int
}

// start serves until the test ends.
func (s *requests) start(t *testing.T) (url string) {
	t.Helper()
	s.seen = make(map[string]int)
	s.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // wrk has walked away in the middle of it
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))]++
	}))
	t.Cleanup(s.server.Close)
	return s.server.URL
}

// load runs the script for a second, waits for the requests that wrk has walked away from,
// and returns how often each came.
func (s *requests) load(t *testing.T, url, script string, args ...string) map[string]int {
	t.Helper()
	tally, err := Load{URL: url, Script: script, Args: args, Duration: time.Second}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.server.Close()
	sum := int64(0)
	for _, n := range s.seen {
		sum += int64(n)
	}
	if sum < tally.Requests {
		t.Errorf("%d requests came, and wrk had %d answers", sum, tally.Requests)
	}
	return s.seen
}

// The links that are asked for by chance are those that it was told of, and all of them.
func TestRandomScript(t *testing.T) {
	t.Parallel()
	var s requests
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	seen := s.load(t, s.start(t), "random", "100", "124", "1")
	for n := range 100 {
		code := fmt.Sprintf("GET /000%c%c%c", digits[n*124/62/62], digits[n*124/62%62], digits[n*124%62])
		if seen[code] == 0 {
			t.Errorf("nobody asked for %s", code)
		}
		delete(seen, code)
	}
	if len(seen) > 0 {
		t.Errorf("some asked for what there is not: %v", seen)
	}
}

func TestPostScript(t *testing.T) {
	t.Parallel()
	var s requests
	const body = `{"url":"https://go.dev/"}`
	seen := s.load(t, s.start(t)+"/shorten", "post", body)
	if want := "POST /shorten application/json " + body; len(seen) != 1 || seen[want] == 0 {
		t.Errorf("%v, want nothing but %q", seen, want)
	}
}

// Each URL is posted once. Of the last ones, wrk walks away from some.
func TestPostsScript(t *testing.T) {
	t.Parallel()
	var s requests
	seen := s.load(t, s.start(t)+"/shorten", "posts", "https://go.dev/")
	posted := len(seen)
	for i := range posted + Connections {
		request := fmt.Sprintf(`POST /shorten application/json {"url":"https://go.dev/%010d"}`, i)
		if seen[request] > 1 {
			t.Errorf("%d times %s", seen[request], request)
		}
		delete(seen, request)
	}
	if posted < Connections || len(seen) > 0 {
		t.Errorf("%d requests, and among them %v", posted, seen)
	}
}
