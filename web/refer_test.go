package web

import (
	"html"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"keypool/web/internal/media"
)

// browserAccept is the Accept header of Firefox and Chromium.
const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

func wantReferral(t *testing.T, r response, page string) {
	t.Helper()
	h := r.header
	if r.status != http.StatusFound || h.Get("Location") != page || h.Get("Cache-Control") != "no-store" || h.Get("Vary") != "Accept" {
		t.Errorf("status %d, %v; want a redirect to %s that is not cached", r.status, h, page)
	}
}

// otherAccepts are the Accept headers of clients that do not prefer HTML.
func otherAccepts() [][]string {
	return [][]string{nil, {"Accept", "*/*"}, {"Accept", media.JSON}, {"Accept", "application/json, text/html;q=0.5"}, {"Accept", media.Text}}
}

func TestHomePageRedirectsBrowsersToHomeURL(t *testing.T) {
	t.Parallel()
	const page = "https://example.com/about?a=b#c"
	s, plain := newSite(t, func(c *PublicConfig) { c.HomeURL = page }), newSite(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		wantReferral(t, s.do(t, method, "/", "", "Accept", browserAccept), page)
		if r := plain.do(t, method, "/", "", "Accept", browserAccept); r.status != http.StatusOK {
			t.Errorf("without HOME_URL: status %d, want 200", r.status)
		}
		if r := s.do(t, method, "/?url=https%3A%2F%2Fgo.dev%2F", "", "Accept", browserAccept); r.status != http.StatusOK {
			t.Errorf("a bookmarklet: status %d, want the page", r.status)
		}
		for _, accept := range otherAccepts() {
			r := s.do(t, method, "/", "", accept...)
			if h := r.header; r.status != http.StatusOK || h.Get("Vary") != "Accept" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%v: status %d, %v; want the page, which is not cached", accept, r.status, h)
			}
		}
	}
	created := s.do(t, http.MethodPost, "/shorten", "url=https://go.dev/", "Content-Type", media.Form, "Accept", browserAccept)
	if created.status != http.StatusCreated {
		t.Errorf("creation: status %d, want 201", created.status)
	}
}

func TestUnknownCodeRedirectsBrowsersToNotFoundURL(t *testing.T) {
	t.Parallel()
	const page = "https://example.com/404"
	s, plain := newSite(t, func(c *PublicConfig) { c.NotFoundURL = page }), newSite(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, path := range []string{"/unknown", "/unknown+", "/unknown.svg", "/unknown.png"} {
			wantReferral(t, s.do(t, method, path, "", "Accept", browserAccept), page)
			if r := plain.do(t, method, path, "", "Accept", browserAccept); r.status != http.StatusNotFound {
				t.Errorf("%s without NOT_FOUND_URL: status %d, want 404", path, r.status)
			}
			for _, accept := range otherAccepts() {
				r := s.do(t, method, path, "", accept...)
				if r.status != http.StatusNotFound || r.header.Get("Location") != "" {
					t.Errorf("%s %s with %v: status %d, want 404", method, path, accept, r.status)
				}
			}
		}
	}
	s.insert(t, expired("old"))
	for _, path := range []string{"/old", "/old+"} {
		if r := s.do(t, http.MethodGet, path, "", "Accept", browserAccept); r.status != http.StatusGone {
			t.Errorf("GET %s: status %d, want 410", path, r.status)
		}
	}
	if r := s.do(t, http.MethodPost, "/unknown", "", "Accept", browserAccept); r.status != http.StatusMethodNotAllowed {
		t.Errorf("POST /unknown: status %d, want 405", r.status)
	}
}

// A browser is also redirected from a path that cannot be a code. The test does not compare these answers
// with the OpenAPI document, which does not list such paths.
func TestNotFoundURLAppliesToPathsThatCannotBeCodes(t *testing.T) {
	t.Parallel()
	const page = "https://example.com/404"
	s := newSite(t, func(c *PublicConfig) { c.NotFoundURL = page })
	s.client.Transport = s.client.Transport.(*contract).next
	for _, path := range []string{"/wp-login.php", "/a/b", "/+", "/" + strings.Repeat("a", 100)} {
		wantReferral(t, s.do(t, http.MethodGet, path, "", "Accept", browserAccept), page)
		if r := s.do(t, http.MethodGet, path, ""); r.status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, r.status)
		}
	}
}

// NOT_FOUND_URL does not apply to a known code, even if the path continues after the code.
func TestNotFoundURLDoesNotApplyToKnownCodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.NotFoundURL = "https://example.com/404" })
	s.shorten(t, `{"url":"https://go.dev/","alias":"known"}`)
	for _, path := range []string{"/known/x", "/known/"} {
		if r := s.do(t, http.MethodGet, path, "", "Accept", browserAccept); r.status != http.StatusNotFound || !strings.Contains(r.body, "<main") {
			t.Errorf("GET %s: status %d, want a page with status 404", path, r.status)
		}
	}
}

// A scan whose answers are redirects is refused like any other scan.
func TestRedirectsToNotFoundURLCountAsMisses(t *testing.T) {
	withClockStopped(t, func(t *testing.T) {
		s := newSite(t, func(c *PublicConfig) {
			c.NotFoundURL = "https://example.com/404"
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		})
		for i := range 100 * missBurst {
			r := s.do(t, http.MethodGet, "/no"+strconv.Itoa(i), "", "X-Forwarded-For", "192.0.2.1", "Accept", browserAccept)
			if r.status == http.StatusTooManyRequests {
				return
			}
			wantReferral(t, r, "https://example.com/404")
		}
		t.Error("the service refused no request of the scan")
	})
}

func TestPreviewContainsReportURLWithCode(t *testing.T) {
	t.Parallel()
	for report, want := range map[string]string{
		"https://example.com/report":                         "https://example.com/report?code=Ab-_1",
		"https://example.com/report?lang=en#form":            "https://example.com/report?lang=en&code=Ab-_1#form",
		"mailto:abuse@example.com":                           "mailto:abuse@example.com?body=https:%2F%2Fs.example%2FAb-_1",
		"mailto:abuse@example.com?subject=Report%20a%20link": "mailto:abuse@example.com?subject=Report%20a%20link&body=https:%2F%2Fs.example%2FAb-_1",
		"": "",
	} {
		s := newSite(t, func(c *PublicConfig) { c.ReportURL, c.BaseURL = report, "https://s.example" })
		s.shorten(t, `{"url":"https://go.dev/","alias":"Ab-_1"}`)
		page := s.do(t, http.MethodGet, "/Ab-_1+", "", "Accept", browserAccept)
		if strings.Contains(page.body, "Report this link") != (report != "") || !strings.Contains(page.body, html.EscapeString(want)) {
			t.Errorf("REPORT_URL=%s: the preview does not contain %s:\n%s", report, want, page.body)
		}
		if r := s.do(t, http.MethodGet, "/Ab-_1+", ""); strings.Contains(r.body, "example.com") {
			t.Errorf("the JSON of the preview contains the page to report links: %s", r.body)
		}
	}
}

// If a link is created after a browser was redirected to NOT_FOUND_URL, the next request for the code leads to the link.
func TestCreatedLinkReplacesRedirectToNotFoundURL(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.NotFoundURL = "https://example.com/404" })
	wantReferral(t, s.do(t, http.MethodGet, "/later", "", "Accept", browserAccept), "https://example.com/404")
	s.shorten(t, `{"url":"https://go.dev/","alias":"later"}`)
	if r := s.do(t, http.MethodGet, "/later", "", "Accept", browserAccept); r.header.Get("Location") != "https://go.dev/" {
		t.Errorf("status %d, %v", r.status, r.header)
	}
}
