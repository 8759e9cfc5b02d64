package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A page of another site cannot start an action on the admin listener, but it may link to the pages of
// the listener.
func TestOtherSitesCanLinkToAdminPagesButStartNoAction(t *testing.T) {
	t.Parallel()
	h := New(Config{
		Gatherer: prometheus.NewRegistry(), Status: full,
		Links: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
	})
	for _, tt := range []struct {
		method, path, site, mode, dest string
		want                           int
	}{
		{"GET", "/debug/pprof/symbol", "", "", "", 200},
		{"GET", "/debug/pprof/symbol", "none", "navigate", "document", 200},
		{"GET", "/debug/pprof/symbol", "same-origin", "no-cors", "image", 200},
		{"GET", "/debug/pprof/symbol", "cross-site", "no-cors", "image", 403},
		{"GET", "/debug/pprof/symbol", "same-site", "no-cors", "image", 403},
		{"GET", "/debug/pprof/symbol", "cross-site", "navigate", "document", 403},
		{"POST", "/debug/pprof/symbol", "cross-site", "navigate", "document", 403},
		{"POST", "/debug/pprof/symbol", "", "", "", 200},
		{"GET", "/links/?q=x", "cross-site", "no-cors", "image", 403},
		{"GET", "/links/?q=x", "cross-site", "navigate", "iframe", 403},
		{"GET", "/links/?q=x", "cross-site", "cors", "empty", 403},
		{"HEAD", "/links/", "cross-site", "no-cors", "empty", 403},
		{"POST", "/links/new", "cross-site", "navigate", "document", 403},
		{"POST", "/links/new", "same-origin", "navigate", "document", 200},
		{"GET", "/links/code/a", "cross-site", "navigate", "document", 200},
		{"GET", "/", "cross-site", "navigate", "document", 200},
		{"GET", "/", "same-site", "navigate", "document", 200},
		{"GET", "/status", "cross-site", "cors", "empty", 403},
		{"GET", "/metrics", "cross-site", "no-cors", "script", 403},
		{"GET", "/metrics", "", "", "", 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody)
		for name, value := range map[string]string{"Sec-Fetch-Site": tt.site, "Sec-Fetch-Mode": tt.mode, "Sec-Fetch-Dest": tt.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %s from %q, mode %q, destination %q: status %d, want %d", tt.method, tt.path, tt.site, tt.mode, tt.dest, w.Code, tt.want)
		}
	}
}
