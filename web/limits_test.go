package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"keypool/internal/promvalue"
	"keypool/internal/quota"
	"keypool/web/client"
	"keypool/web/internal/media"
)

func TestMissLimiterRefusesScans(t *testing.T) {
	withClockStopped(t, func(t *testing.T) {
		s := newSite(t, func(c *PublicConfig) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
		a := s.shorten(t, `{"url":"https://go.dev"}`)
		// Requests for an existing code are not misses, so the miss limiter refuses none of them.
		for range 2 * missBurst {
			if r := s.do(t, http.MethodGet, "/"+a.Code, "", "X-Forwarded-For", "192.0.2.1"); r.status != http.StatusFound {
				t.Fatalf("status %d, want 302", r.status)
			}
		}
		refused := s.scan(t, "192.0.2.1")
		if refused.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q, want 1", refused.header.Get("Retry-After"))
		}
		if r := s.do(t, http.MethodGet, "/"+a.Code, "", "X-Forwarded-For", "192.0.2.2"); r.status != http.StatusFound {
			t.Errorf("the answer to another client has status %d, want 302", r.status)
		}
	})
}

// scan requests unknown codes until the service refuses.
func (s *site) scan(t *testing.T, from string) response {
	t.Helper()
	for i := range 100 * missBurst {
		switch r := s.do(t, http.MethodGet, "/no"+strconv.Itoa(i), "", "X-Forwarded-For", from); r.status {
		case http.StatusTooManyRequests:
			return r
		case http.StatusNotFound:
		default:
			t.Fatalf("status %d", r.status)
		}
	}
	t.Fatal("the service refused no request of the scan")
	return response{}
}

// A 409 for an alias shows that a link has this code, so it counts as a miss. When no misses are left, a
// creation with an alias is refused before the look-up.
func TestTakenAliasCountsAsMiss(t *testing.T) {
	withClockStopped(t, func(t *testing.T) {
		s := newSite(t, func(c *PublicConfig) { c.Limits = client.Limits{MissRate: 1, MissBurst: 3} })
		s.shorten(t, `{"url":"https://go.dev","alias":"taken"}`)
		for range 3 {
			s.wantProblem(t, s.create(t, `{"url":"https://example.com","alias":"taken"}`), http.StatusConflict, "alias-taken")
		}
		refused := s.create(t, `{"url":"https://example.com","alias":"free"}`)
		s.wantProblem(t, refused, http.StatusTooManyRequests, "too-many-misses")
		if got := refused.header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q, want 1", got)
		}
		s.wantProblem(t, s.do(t, http.MethodGet, "/taken", ""), http.StatusTooManyRequests, "too-many-misses")
		s.shorten(t, `{"url":"https://go.dev"}`) // a creation with a key does not reveal whether a code exists
	})
}

// An anonymous creation with the alias and the URL of an existing fixed link is not a miss.
func TestExistingAliasWithSameURLDoesNotCountAsMiss(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.Limits = client.Limits{MissRate: 1, MissBurst: 1} })
	s.shorten(t, `{"url":"https://go.dev","alias":"home"}`)
	for range 3 {
		if r := s.create(t, `{"url":"https://go.dev","alias":"home"}`); r.status != http.StatusOK {
			t.Errorf("status %d, want 200", r.status)
		}
	}
}

// anonymousSite is a listener behind a proxy on this machine, so that a test can choose the address of
// the client.
func anonymousSite(t *testing.T, l client.Limits) *site {
	t.Helper()
	return newSite(t, func(c *PublicConfig) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		c.Limits = l
	})
}

// createUntilRefused creates links until the service refuses. It returns the number of requests before
// the refusal, and the refusal.
func (s *site) createUntilRefused(t *testing.T, headers ...string) (created int, refused response) {
	t.Helper()
	for created = range 1000 {
		r := s.once(t, http.MethodPost, "/shorten", `{"url":"https://go.dev"}`, append(headers, "Content-Type", media.JSON)...)
		if r.status == http.StatusServiceUnavailable {
			continue // the service ran out of time; the request counts against the limit
		}
		if r.status != http.StatusCreated {
			return created, r
		}
	}
	t.Fatal("the service refused no creation")
	return 0, response{}
}

// regained returns the highest number of requests that a limiter may have regained since start.
func regained(start time.Time, perSecond float64) int {
	return 1 + int(perSecond*time.Since(start).Seconds())
}

func TestAnonymousCreationsAreLimitedPerAddress(t *testing.T) {
	withClockStopped(t, func(t *testing.T) {
		s := anonymousSite(t, client.Limits{AnonymousRate: new(quota.Rate(1))})
		first := s.create(t, `{"url":"https://go.dev"}`, "X-Forwarded-For", "2001:db8::1")
		wantHeader(t, first, "RateLimit-Policy", `"anonymous";q=10;w=10`)
		wantHeader(t, first, "RateLimit", `"anonymous";r=9;t=1`)
		created, refused := s.createUntilRefused(t, "X-Forwarded-For", "2001:db8::2") // in the same /64
		if created != 9 {
			t.Errorf("%d further links were created, want 9", created)
		}
		s.wantProblem(t, refused, http.StatusTooManyRequests, "rate-limited")
		wantHeader(t, refused, "Retry-After", "1")
		wantHeader(t, refused, "RateLimit", `"anonymous";r=0;t=10`)
		other := s.create(t, `{"url":"https://go.dev"}`, "X-Forwarded-For", "2001:db8:0:1::1")
		wantHeader(t, other, "RateLimit", `"anonymous";r=9;t=1`)
		if r := s.do(t, http.MethodGet, "/"+decode[answer](t, first.body).Code, "", "X-Forwarded-For", "2001:db8::1"); r.status != http.StatusFound {
			t.Errorf("a redirect of the limited client has status %d, want 302", r.status)
		}
		if got := promvalue.Counter(s.metrics.limited.Anonymous); got != 1 {
			t.Errorf("http_requests_limited_total is %v, want 1", got)
		}
		if got, want := s.metrics.Limited(), (Limited{Anonymous: 1}); got != want {
			t.Errorf("Limited() = %+v, want %+v", got, want)
		}
	})
}

// Without scripts, the page of the refusal is the only copy of what the person entered.
func TestPageKeepsInputIfClientCreatesTooManyLinks(t *testing.T) {
	t.Parallel()
	s := anonymousSite(t, client.Limits{AnonymousRate: new(quota.Rate(1))})
	for attempt := range 50 {
		form := fmt.Sprintf("url=https://go.dev/doc&alias=kept%d&expires_in=24h", attempt)
		r := s.do(t, http.MethodPost, "/shorten", form, "X-Forwarded-For", "192.0.2.1", "Content-Type", media.Form, "Accept", "text/html")
		if r.status == http.StatusCreated {
			continue
		}
		for _, want := range []string{`value="https://go.dev/doc"`, fmt.Sprintf(`value="kept%d"`, attempt), `value="24h" selected`} {
			if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, want) {
				t.Errorf("status %d, want 429 and %s in the page:\n%s", r.status, want, r.body)
			}
		}
		return
	}
	t.Error("no creation was refused")
}

func TestCreationsWithoutLimitHaveNoRateLimitHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for range 2 * client.DefaultAnonymousRate.Burst() {
		r := s.create(t, `{"url":"https://go.dev"}`)
		if r.status != http.StatusCreated || r.header.Get("RateLimit") != "" || r.header.Get("RateLimit-Policy") != "" {
			t.Fatalf("the creation from a loopback address has status %d (want 201) and header %v", r.status, r.header)
		}
	}
}

func TestAnonymousMaxAgeLimitsExpiry(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.Limits.AnonymousMaxAge = 48 * time.Hour })
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	if got := a.ExpiresAt.Sub(a.CreatedAt); got != 48*time.Hour {
		t.Errorf("a link without an expiry expires after %v, want 48h", got)
	}
	if a = s.shorten(t, `{"url":"https://go.dev","expires_in":"1h"}`); a.ExpiresAt.Sub(a.CreatedAt) != time.Hour {
		t.Errorf("a link with expires_in=1h: %+v", a)
	}
	p := s.wantProblem(t, s.create(t, `{"url":"https://go.dev","expires_in":"49h"}`), http.StatusUnprocessableEntity, "invalid-field")
	if p.Field != "expires_in" || !strings.Contains(p.Detail, "within 48h,") {
		t.Errorf("a longer expiry: %+v, want the field and the bound", p)
	}
	s.shorten(t, `{"url":"https://go.dev","alias":"home"}`)
	if r := s.create(t, `{"url":"https://go.dev","alias":"home"}`); r.status != http.StatusOK {
		t.Errorf("a repeated alias without an expiry has status %d, want 200", r.status)
	}
}
