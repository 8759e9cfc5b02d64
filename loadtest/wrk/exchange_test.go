package wrk

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Only the very answer that is wanted is one.
func TestExchange(t *testing.T) {
	t.Parallel()
	const target = "https://go.dev/doc/effective_go"
	tests := map[string]struct {
		answer http.HandlerFunc
		right  bool
	}{
		"right":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }, true},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target+"/", http.StatusFound) }, false},
		"for ever":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusMovedPermanently) }, false},
		"a page":    {func(http.ResponseWriter, *http.Request) {}, false},
		"error":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false},
	}
	for name, tt := range tests {
		server := httptest.NewServer(tt.answer)
		e := Exchange{Method: http.MethodGet, URL: server.URL + "/alias", Status: http.StatusFound, Location: target}
		if err := e.Try(t.Context()); (err == nil) != tt.right {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
