package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/shortener/destination"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// block replaces the block list of a site.
func (s *site) block(t *testing.T, spellings ...string) {
	t.Helper()
	hosts := &destination.Hosts{}
	for _, spelling := range spellings {
		if !hosts.Add(spelling) {
			t.Fatalf("Add(%q) refuses the host", spelling)
		}
	}
	s.service.Block(hosts)
}

func TestCreationForBlockedDestinationAnswers422(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.block(t, "evil.example")
	const target = "https://www.EVIL.example.:444/x"
	r := s.do(t, http.MethodPost, "/shorten", `{"url":"`+target+`"}`, "Content-Type", media.JSON)
	p := decode[reply.Problem](t, r.body)
	if r.status != http.StatusUnprocessableEntity || p.Type != reply.TypePrefix+"blocked-destination" || p.Field != "url" {
		t.Errorf("status %d (want 422), %s", r.status, r.body)
	}
	page := s.do(t, http.MethodPost, "/shorten", "url="+url.QueryEscape(target), "Content-Type", media.Form, "Accept", "text/html")
	const wrong = `<p class="error" id="url-error">The link must not lead to a host that the operator of this service blocks</p>`
	if page.status != http.StatusUnprocessableEntity || !strings.Contains(page.body, wrong) || !strings.Contains(page.body, `value="`+target+`"`) {
		t.Errorf("the page has status %d; want 422, the error at the field, and the URL in the field:\n%s", page.status, page.body)
	}
}

// Redirects and previews of a link to a blocked host answer 410 as long as the host is on the list.
func TestLinkToBlockedHostAnswers410(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.NotFoundURL = "https://example.com/404" })
	const target = "http://0x7f.1:8080/a"
	a := s.shorten(t, `{"url":"`+target+`"}`)
	redirects(t, s, a.ShortURL, target)
	s.block(t, "127.0.0.1")
	for _, path := range []string{"/" + a.Code, "/" + a.Code + "+"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if r := s.do(t, method, path, ""); r.status != http.StatusGone || r.header.Get("Location") != "" || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: status %d (want 410), %v", method, path, r.status, r.header)
			}
		}
		p := decode[reply.Problem](t, s.do(t, http.MethodGet, path, "").body)
		if p.Type != reply.TypePrefix+"gone" || !strings.Contains(p.Detail, "operator of this service blocks") {
			t.Errorf("GET %s: %+v", path, p)
		}
		page := s.do(t, http.MethodGet, path, "", "Accept", "text/html")
		if page.status != http.StatusGone || !strings.Contains(page.body, p.Detail) || strings.Contains(page.body, target) {
			t.Errorf("page of %s: status %d (want 410)\n%s", path, page.status, page.body)
		}
	}
	const visits = `
		# HELP shortener_redirects_total GET requests for short URLs by result: found, missing or gone. Requests answered with 429 or 503 are in no result. HEAD requests and previews are not counted.
		# TYPE shortener_redirects_total counter
		shortener_redirects_total{result="found"} 1
		shortener_redirects_total{result="gone"} 3
		shortener_redirects_total{result="missing"} 0
	`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(visits), "shortener_redirects_total"); err != nil {
		t.Error(err)
	}
	s.block(t)
	redirects(t, s, a.ShortURL, target)
}
