package loadtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// service is a URL shortener that keeps its links in a map. A test sets fields to add faults, which
// the load or the later check must find.
type service struct {
	// forget reports whether the service acknowledges creation n without storing it.
	forget func(n int) bool
	// code returns the code of creation n. It is a fault to return the code of an earlier
	// creation.
	code func(n int) string
	// keepFirst says that a code that was issued twice leads to its first URL. Without keepFirst,
	// the code leads to its last URL.
	keepFirst bool
	// follow writes the answer to a GET of a link.
	follow func(w http.ResponseWriter, r *http.Request, url string)
	// refuse reports whether creation n is answered with 503.
	refuse func(n int) bool

	mu    sync.Mutex
	n     int
	links map[string]string
}

// start serves s until the test ends.
func (s *service) start(t *testing.T) *Client {
	t.Helper()
	s.links = make(map[string]string)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client := NewClient(server.URL, 0)
	t.Cleanup(client.Close)
	return client
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		s.create(w, r)
		return
	}
	url, ok := s.links[strings.TrimPrefix(r.URL.Path, "/")]
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case s.follow != nil:
		s.follow(w, r, url)
	default:
		redirect(w, url)
	}
}

func (s *service) create(w http.ResponseWriter, r *http.Request) {
	n := s.n
	s.n++
	if s.refuse != nil && s.refuse(n) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var body struct{ URL string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	code := fmt.Sprintf("%06d", n)
	if s.code != nil {
		code = s.code(n)
	}
	_, taken := s.links[code]
	forgotten := s.forget != nil && s.forget(n)
	if !forgotten && (!taken || !s.keepFirst) {
		s.links[code] = body.URL
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"code":%q,"url":%q}`, code, body.URL)
}

// redirect answers as a shortener does. It does not use http.Redirect, which would clean the path.
func redirect(w http.ResponseWriter, url string) {
	w.Header().Set("Location", url)
	w.WriteHeader(http.StatusFound)
}
