package web

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/shortener/storetest"
	"keypool/web/internal/reply"
)

func TestShortURLRedirectsToStoredURL(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	const target = "HTTPS://Go.dev:443/a/../b?z=1&a=2#'x"
	a := s.shorten(t, `{"url":"`+target+`","alias":"Ab-_1"}`)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, path := range []string{"/" + a.Code, "/%41b-_1"} {
			r := s.do(t, method, path, "")
			if r.status != http.StatusFound || r.header.Get("Location") != target {
				t.Errorf("%s %s has status %d (want 302) and Location %q", method, path, r.status, r.header.Get("Location"))
			}
			if got := r.header.Get("Cache-Control"); got != "private, max-age=90" {
				t.Errorf("%s %s: Cache-Control is %q, want private, max-age=90", method, path, got)
			}
		}
	}
}

// The caching time of a redirect ends at the expiry of its link.
func TestRedirectCachingEndsAtExpiry(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for seconds, most := range map[int]int{30: 30, 89: 89, 3600: 90} {
		a := s.shorten(t, `{"url":"https://go.dev","expires_in":`+strconv.Itoa(seconds)+`}`)
		r := s.do(t, http.MethodGet, "/"+a.Code, "")
		age, err := strconv.Atoi(strings.TrimPrefix(r.header.Get("Cache-Control"), "private, max-age="))
		if err != nil || age > most || age < most-20 {
			t.Errorf("a link that expires in %d s has Cache-Control %q", seconds, r.header.Get("Cache-Control"))
		}
	}
}

func TestUnknownCodesAnswer404AndExpiredCodesAnswer410(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.insert(t, expired("old"))
	deleted := expired("deleted")
	deleted.ExpiresAt = time.Time{}
	s.insert(t, deleted)
	storetest.Delete(t, s.store, deleted)
	tests := []struct {
		path    string
		status  int
		problem string
	}{
		{"/unknown", 404, "not-found"}, {"/unknown+", 404, "not-found"}, {"/+", 404, "not-found"},
		{"/DELETED", 404, "not-found"}, {"/a/b", 404, "not-found"}, {"/..%2f", 404, "not-found"},
		{"/wp-login.php", 404, "not-found"}, {"/" + strings.Repeat("a", 8000), 404, "not-found"},
		{"/metrics", 404, "not-found"}, {"/debug/pprof/", 404, "not-found"},
		{"/old", 410, "gone"}, {"/old+", 410, "gone"}, {"/deleted", 410, "gone"}, {"/deleted+", 410, "gone"},
	}
	for _, tt := range tests {
		r := s.do(t, http.MethodGet, tt.path, "")
		if p := decode[reply.Problem](t, r.body); r.status != tt.status || p.Type != reply.TypePrefix+tt.problem {
			t.Errorf("GET %.20s: %d %s", tt.path, r.status, r.body)
		}
		if r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the answer to GET %.20s may be cached: %v", tt.path, r.header)
		}
		if head := s.do(t, http.MethodHead, tt.path, ""); head.status != tt.status || head.body != "" {
			t.Errorf("HEAD %.20s: %d %q", tt.path, head.status, head.body)
		}
		page := s.do(t, http.MethodGet, tt.path, "", "Accept", "text/html")
		if page.status != tt.status || !strings.Contains(page.body, "<h1>") || strings.Contains(page.body, "<form") {
			t.Errorf("page of %.20s: %d %s", tt.path, page.status, page.body)
		}
	}
}

func TestPreviewShowsLinkWithoutRedirect(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	a := s.shorten(t, `{"url":"https://go.dev/?q=%3Cscript%3E&x='","expires_in":"48h"}`)
	r := s.do(t, http.MethodGet, "/"+a.Code+"+", "")
	if diff := cmp.Diff(a, decode[answer](t, r.body)); diff != "" || r.status != http.StatusOK {
		t.Errorf("status %d (want 200)\n%s", r.status, diff)
	}
	if r := s.do(t, http.MethodGet, "/"+a.Code+"+", "", "Host", "a,b"); r.status != http.StatusBadRequest {
		t.Errorf("a request with an invalid Host has status %d (want 400): %s", r.status, r.body)
	}
	page := s.do(t, http.MethodGet, "/"+a.Code+"%2B", "", "Accept", "text/html")
	if page.status != http.StatusOK || !strings.Contains(page.body, `href="/`+a.Code+`"`) {
		t.Errorf("status %d (want 200)\n%s", page.status, page.body)
	}
	if page.header.Get("Location") != "" || r.header.Get("Location") != "" {
		t.Error("a preview redirects")
	}
}

// The router must not handle a path of the API as a code that is followed by a path.
func TestUnsupportedMethodsOfAPIPathsAnswer405(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for path, allow := range map[string]string{
		"/api/links": "GET, HEAD, POST", "/api/links/x": "GET, HEAD, PATCH, DELETE", "/api/links/x/visits": "GET, HEAD", "/api/visits/top": "GET, HEAD",
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "MADE-UP"} {
			if strings.Contains(allow, method) {
				continue
			}
			if r := s.do(t, method, path, ""); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != allow {
				t.Errorf("%s %s has status %d and Allow %q, want 405 and %q", method, path, r.status, r.header.Get("Allow"), allow)
			}
		}
	}
}

func TestUnsupportedMethodsAnswer405(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	allowed := map[string]string{
		"/": "GET, HEAD", "/docs": "GET, HEAD", "/" + a.Code: "GET, HEAD", "/" + a.Code + "+": "GET, HEAD", "/" + a.Code + ".png": "GET, HEAD", "/unknown": "GET, HEAD",
		"/shorten": "POST", "/healthz": "GET, HEAD", "/openapi.yaml": "GET, HEAD", "/robots.txt": "GET, HEAD", "/favicon.ico": "GET, HEAD",
	}
	for path, allow := range allowed {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "MADE-UP"} {
			if strings.Contains(allow, method) {
				continue
			}
			if r := s.do(t, method, path, ""); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != allow {
				t.Errorf("%s %s has status %d and Allow %q, want 405", method, path, r.status, r.header.Get("Allow"))
			}
		}
	}
	if got := testutil.CollectAndCount(s.registry, "http_request_duration_seconds"); got > 100 {
		t.Errorf("the histogram has %d series, want at most 100", got)
	}
	assertNoLabel(t, s, "MADE-UP")
}

// The metric counts GET requests for short URLs. It counts neither HEAD requests nor previews.
func TestOnlyGETRequestForCodeCountsAsVisit(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	s.insert(t, expired("old"))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, path := range []string{"/" + a.Code, "/unknown", "/old", "/" + a.Code + "+", "/old+"} {
			s.do(t, method, path, "")
		}
	}
	const want = `
		# HELP shortener_redirects_total GET requests for short URLs by result: found, missing or gone. Requests answered with 429 or 503 are in no result. HEAD requests and previews are not counted.
		# TYPE shortener_redirects_total counter
		shortener_redirects_total{result="found"} 1
		shortener_redirects_total{result="gone"} 1
		shortener_redirects_total{result="missing"} 1
	`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), "shortener_redirects_total"); err != nil {
		t.Error(err)
	}
	assertNoLabel(t, s, a.Code)
	assertNoLabel(t, s, "unknown")
}

// assertNoLabel checks that no label of a metric contains text, which is a part of an earlier request.
func assertNoLabel(t *testing.T, s *site, text string) {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.Contains(family.String(), text) {
			t.Errorf("%q is a label of %s", text, family.GetName())
		}
	}
}

func TestStaticFilesAreServed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for path, want := range map[string]string{
		"/": "<form", "/docs": "POST", "/openapi.yaml": "openapi: 3", "/robots.txt": "User-agent", "/favicon.ico": "PNG", "/healthz": `{"status":"ok"}`,
	} {
		r := s.do(t, http.MethodGet, path, "")
		if r.status != http.StatusOK || !strings.Contains(r.body, want) || r.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: %d %v", path, r.status, r.header)
		}
		if head := s.do(t, http.MethodHead, path, ""); head.status != http.StatusOK || head.body != "" {
			t.Errorf("HEAD %s: %d %q", path, head.status, head.body)
		}
	}
}
