package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// requests is a server that counts the requests that it receives.
type requests struct {
	server *httptest.Server

	mu   sync.Mutex
	seen map[string]int
}

// startRequests starts a server, which the caller must close.
func startRequests() *requests {
	s := &requests{seen: make(map[string]int)}
	s.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // wrk closed the connection when its load ended
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))]++
	}))
	return s
}

// retry calls try until it returns nil. The test fails if this takes longer than two minutes. On a busy
// machine, a server may give too few answers during a load of one second.
func retry(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := try()
		if err == nil {
			return
		}
		if errors.Is(err, exec.ErrNotFound) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// load runs the script for one second. Then it closes the server, which first handles the requests whose answers
// wrk did not read. It repeats the load with a new server until wrk receives two answers per connection.
// It returns how often the server of the last load received each request.
func load(t *testing.T, path, script string, args ...string) map[string]int {
	t.Helper()
	var s *requests
	var tally Tally
	retry(t, func() (err error) {
		s = startRequests()
		defer s.server.Close()
		tally, err = Wrk{URL: s.server.URL + path, Script: script, Args: args, Duration: time.Second}.Run(t.Context())
		if err == nil && tally.Requests < 2*Connections {
			err = fmt.Errorf("wrk received only %d answers", tally.Requests)
		}
		return err
	})
	sum := int64(0)
	for _, n := range s.seen {
		sum += int64(n)
	}
	if sum < tally.Requests {
		t.Errorf("the server received %d requests, and wrk received %d answers", sum, tally.Requests)
	}
	return s.seen
}

func TestWrkWithScriptRandomRequestsEveryLinkAndNoOther(t *testing.T) {
	t.Parallel()
	const links = 10
	var codes string
	for n := range links {
		codes += fmt.Sprintf("code%02d", n)
	}
	file := filepath.Join(t.TempDir(), "codes")
	if err := os.WriteFile(file, []byte(codes), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := load(t, "", "random", file, "6", "1")
	for n := range links {
		request := fmt.Sprintf("GET /code%02d", n)
		if seen[request] == 0 {
			t.Errorf("wrk did not send the request %s", request)
		}
		delete(seen, request)
	}
	if len(seen) > 0 {
		t.Errorf("wrk requested links that are not in the file: %v", seen)
	}
}

func TestWrkScriptPostRepeatsOneCreation(t *testing.T) {
	t.Parallel()
	const body = `{"url":"https://go.dev/"}`
	seen := load(t, "/shorten", "post", body)
	if want := "POST /shorten application/json " + body; len(seen) != 1 || seen[want] == 0 {
		t.Errorf("the server received the requests %v, want only %q", seen, want)
	}
}

// When the load ends, some of the last requests do not reach the server. Therefore up to Connections
// numbers may be missing among the last URLs.
func TestWrkWithScriptPostsSendsEachURLOnce(t *testing.T) {
	t.Parallel()
	seen := load(t, "/shorten", "posts", "https://go.dev/")
	posted := len(seen)
	for i := range posted + Connections {
		request := fmt.Sprintf(`POST /shorten application/json {"url":"https://go.dev/%010d"}`, i)
		if seen[request] > 1 {
			t.Errorf("the server received %d copies of %s, want 1", seen[request], request)
		}
		delete(seen, request)
	}
	if posted < Connections || len(seen) > 0 {
		t.Errorf("wrk sent %d of the expected URLs, and the unexpected requests %v", posted, seen)
	}
}

const rightTally = `{"requests":4000,"micros":2000000,"connect":0,"read":0,"write":0,"timeout":0,"status":0}`

func TestParseTallyFailsIfRequestFailed(t *testing.T) {
	t.Parallel()
	got, err := parseTally([]byte("Running 2s test\n  4000 requests in 2.00s\n\n"+rightTally+"\n"), false)
	if err != nil || got.PerSecond() != 2000 {
		t.Errorf("parseTally returns a tally of %v answers per second and the error %v, want 2000 per second", got.PerSecond(), err)
	}
	wrong := map[string]string{
		"nothing":     "",
		"no tally":    "Running 2s test\n  4000 requests in 2.00s\n",
		"no requests": strings.Replace(rightTally, "4000", "0", 1),
		"no time":     strings.Replace(rightTally, "2000000", "0", 1),
	}
	for _, failure := range []string{"connect", "read", "write", "timeout", "status"} {
		wrong[failure] = strings.Replace(rightTally, `"`+failure+`":0`, `"`+failure+`":1`, 1)
	}
	for name, out := range wrong {
		if got, err := parseTally([]byte(out), false); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
	refused := strings.Replace(rightTally, `"status":0`, `"status":1`, 1)
	if got, err := parseTally([]byte(refused), true); err != nil || got.Status != 1 {
		t.Errorf("parseTally returns %+v and the error %v, want a tally with one refusal", got, err)
	}
}

func TestWrkGivesNoFigureForFaultyServer(t *testing.T) {
	t.Parallel()
	bare := httptest.NewServer(bareHandler(nil))
	defer bare.Close()
	missing := errors.New("rows are missing")
	w := Wrk{URL: bare.URL + "/any", Script: "get", Duration: time.Second}
	retry(t, func() error {
		figure, err := w.Subject("bare").Measure(t.Context())
		if err == nil && figure <= 0 {
			err = fmt.Errorf("Measure returns the figure %v, want a figure above 0", figure)
		}
		return err
	})
	w.Check = func(_ context.Context, answers int64) error {
		if answers <= 0 {
			t.Error("the check was called with no answers")
		}
		return missing
	}
	retry(t, func() error {
		if figure, err := w.Subject("bare").Measure(t.Context()); !errors.Is(err, missing) {
			return fmt.Errorf("Measure returns the figure %v and the error %w, want the error of the check", figure, err)
		}
		return nil
	})
	w = Wrk{URL: bare.URL + "/shorten", Script: "post", Args: []string{"no JSON"}, Duration: time.Second}
	if figure, err := w.Subject("bare").Measure(t.Context()); err == nil {
		t.Errorf("%v creations per second, although all were refused", figure)
	}
}

func TestTryVisitRejectsWrongAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer http.HandlerFunc
		right  bool
	}{
		"the right redirect":        {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, Target, http.StatusFound) }, true},
		"a redirect to another URL": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, Target+"/", http.StatusFound) }, false},
		"a permanent redirect":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, Target, http.StatusMovedPermanently) }, false},
		"a page without a redirect": {func(http.ResponseWriter, *http.Request) {}, false},
		"status 503":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false},
	}
	for name, tt := range tests {
		server := httptest.NewServer(tt.answer)
		if err := TryVisit(t.Context(), server.URL, "alias", Target); (err == nil) != tt.right {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
