package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/shortener/visits"
	"keypool/web/internal/reply"
)

// Routes of the API for visits.
const (
	routeVisits    = routeLink + "/visits"
	routeReferrers = routeVisits + "/referrers"
	routeCountries = routeVisits + "/countries"
	routeDevices   = routeVisits + "/devices"
	routeTop       = "/api/visits/top"
)

// Visits counts visits and reads the counts.
type Visits struct {
	Counter *visits.Counter
	Store   visits.Store
	// CountryHeader is the header in which a trusted proxy sends the country of the client, in canonical form. If it is
	// empty, no country is counted.
	CountryHeader string
}

// serveVisits registers the routes of the API for visits.
func (p *public) serveVisits(e *echo.Echo) {
	for path, h := range map[string]echo.HandlerFunc{
		routeVisits:    p.linkVisits,
		routeReferrers: func(c echo.Context) error { return p.facet(c, visits.Referrers) },
		routeCountries: func(c echo.Context) error { return p.facet(c, visits.Countries) },
		routeDevices:   func(c echo.Context) error { return p.facet(c, visits.Devices) },
		routeTop:       p.topVisits,
	} {
		p.serve(e, path, h, http.MethodGet, http.MethodHead)
	}
}

// count counts a GET request that is answered with a redirect.
func (p *public) count(c echo.Context, l *shortener.Link) {
	if p.visits == nil {
		return
	}
	r := c.Request()
	p.visits.Counter.Count(visits.Visit{
		Code: l.Code, Owner: l.Owner(), Agent: first(r.Header, "User-Agent"), Prefetch: isPrefetch(r.Header),
		Referrer: first(r.Header, "Referer"), Country: p.country(r),
	})
}

// first returns the first value of a header, whose name must have the canonical form. Header.Get would check the form for
// each redirect.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// isPrefetch reports whether a browser loads a URL before a person asks for it. Older browsers send Purpose or
// X-Moz.
func isPrefetch(h http.Header) bool {
	const prefetch = "prefetch"
	return strings.HasPrefix(first(h, "Sec-Purpose"), prefetch) || first(h, "Purpose") == prefetch || first(h, "X-Moz") == prefetch
}

// country returns the country that a trusted proxy sent, or "". Of several values, one may come from the client.
func (p *public) country(r *http.Request) string {
	if p.visits.CountryHeader == "" {
		return ""
	}
	countries := r.Header[p.visits.CountryHeader]
	if len(countries) != 1 || !p.origin.trusts(r.RemoteAddr) {
		return ""
	}
	return countries[0]
}

// visitReader returns who reads visits, if visits are counted.
func (p *public) visitReader(c echo.Context) (shortener.Actor, error) {
	actor, err := p.manager(c, token.ScopeRead)
	if err == nil && p.visits == nil {
		err = errVisitsOff
	}
	return actor, err
}

// visitedLink returns the code of a request, if the token of the request may read the visits of the link. The link may be
// deleted.
func (p *public) visitedLink(c echo.Context) (code string, err error) {
	actor, err := p.visitReader(c)
	if err != nil {
		return "", err
	}
	link, err := p.service.Find(c.Request().Context(), actor, codeParam(c))
	return link.Code, err
}

// linkVisits answers GET and HEAD of /api/links/{code}/visits.
func (p *public) linkVisits(c echo.Context) error {
	code, err := p.visitedLink(c)
	if err != nil {
		return err
	}
	q, err := readSeriesQuery(c.Request())
	if err != nil {
		return err
	}
	asOf := p.visits.Counter.AsOf() // before the query, which then includes all visits until this time
	series, err := p.visits.Store.Series(c.Request().Context(), code, q.span, q.step)
	if err != nil {
		return visitsUnavailable(err)
	}
	return p.sendVisits(c, newSeriesAnswer(code, series, q, asOf))
}

// facet answers GET and HEAD of /api/links/{code}/visits/{facet}.
func (p *public) facet(c echo.Context, f visits.Facet) error {
	code, err := p.visitedLink(c)
	if err != nil {
		return err
	}
	q, err := readTopQuery(c.Request())
	if err != nil {
		return err
	}
	values, err := p.visits.Store.Facet(c.Request().Context(), code, f, q.span, q.limit)
	if err != nil {
		return visitsUnavailable(err)
	}
	return p.sendVisits(c, newFacetAnswer(values))
}

// topSpan is the range of the links with the most visits, if the client does not choose one.
const topSpan = 7 * 24 * time.Hour

// topVisits answers GET and HEAD of /api/visits/top.
func (p *public) topVisits(c echo.Context) error {
	actor, err := p.visitReader(c)
	if err != nil {
		return err
	}
	q, err := readTopQuery(c.Request())
	if err != nil {
		return err
	}
	if q.span.From.IsZero() {
		end := q.span.To
		if end.IsZero() {
			end = time.Now()
		}
		q.span.From = end.Add(-topSpan)
	}
	owner := actor.Token
	if actor.Admin {
		owner = 0
	}
	asOf := p.visits.Counter.AsOf() // as in linkVisits
	links, err := p.visits.Store.Top(c.Request().Context(), owner, q.span, q.limit)
	if err != nil {
		return visitsUnavailable(err)
	}
	return p.sendVisits(c, newTopAnswer(links, asOf))
}

// sendVisits sends an answer as JSON or CSV.
func (p *public) sendVisits(c echo.Context, a table) error {
	h := c.Response().Header()
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(echo.HeaderCacheControl, "no-store")
	if negotiate(c.Request(), mediaJSON, mediaCSV) == mediaCSV {
		return sendCSV(c, a.lines())
	}
	return reply.JSON(c.Response(), mediaJSON, http.StatusOK, a)
}

// visitsUnavailable is the error of a query that failed or took too long.
func visitsUnavailable(err error) error {
	return &shortener.UnavailableError{RetryAfter: visitsRetry, Err: err}
}

const visitsRetry = time.Second
