package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/visits"
)

// Visits counts visits and reads the counts.
type Visits struct {
	Counter *visits.Counter
	Store   visits.Store
	// CountryHeader is the name, in canonical form, of the header in which a trusted proxy sends the country of the
	// client. If CountryHeader is empty, no country is counted.
	CountryHeader string
	// Keep is the time for which the counts by hour are stored. If Keep is 0, they are stored for ever.
	Keep time.Duration
}

// count counts a GET request that is answered with a redirect.
func (p *public) count(c echo.Context, l *shortener.Link) {
	if p.visits == nil {
		return
	}
	r := c.Request()
	p.visits.Counter.Count(visits.Visit{
		Code: l.Code, Owner: l.Owner(), Agent: firstValue(r.Header, "User-Agent"), Prefetch: isPrefetch(r.Header),
		Referrer: firstValue(r.Header, "Referer"), Country: p.country(r),
	})
}

// firstValue returns the first value of a header. The name must have the canonical form. Unlike Header.Get, firstValue
// does not convert the name, because this would cost time in each redirect.
func firstValue(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// isPrefetch reports whether a browser loads a URL before a person asks for it. Older browsers send Purpose or
// X-Moz instead of Sec-Purpose.
func isPrefetch(h http.Header) bool {
	const prefetch = "prefetch"
	return strings.HasPrefix(firstValue(h, "Sec-Purpose"), prefetch) || firstValue(h, "Purpose") == prefetch || firstValue(h, "X-Moz") == prefetch
}

// country returns the country that a trusted proxy sent, or "". It ignores a header with several values, because one of the
// values may come from the client.
func (p *public) country(r *http.Request) string {
	if p.visits.CountryHeader == "" {
		return ""
	}
	countries := r.Header[p.visits.CountryHeader]
	if len(countries) != 1 || !p.proxies.Trusts(r.RemoteAddr) {
		return ""
	}
	return countries[0]
}
