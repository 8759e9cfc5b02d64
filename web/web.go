// Package web is HTTP over package shortener: the public API and page, and the
// admin listener that every program of the project has.
//
// Vocabulary: a problem is an error as a client sees it (RFC 9457); a miss is a
// request for a code that no link has; the origin is the scheme, host and port
// under which a client knows this service.
//
// Invariants:
//
//   - what a client is told of an error is in one table (problem.go); whatever is
//     not in it is a 500 without details, and a conflict is in it;
//   - nothing of a request is trusted before the size, type and shape of it were
//     checked, and forwarding headers only from proxies that were named;
//   - no metric label carries a code, a path, an address or a method of the
//     client's invention.
package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"keypool/shortener"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// The routes, as the router and the metrics call them.
const (
	routeCode    = "/:code"
	routePreview = "/:code+" // served by routeCode; a name for the metrics only
	routeShorten = "/shorten"
)

// PublicConfig is what the public handler is made of. Only Service is required.
type PublicConfig struct {
	Service        *shortener.Service
	BaseURL        string                // prefix of short URLs; empty: from the request
	TrustedProxies []netip.Prefix        // whose X-Forwarded-For and -Proto are believed
	Degraded       func() bool           // reports whether a part that links do not depend on is away
	Registerer     prometheus.Registerer // nil: the metrics are kept to ourselves
	Logger         *slog.Logger          // nil: nothing is logged
}

// public holds what the handlers of the public listener share; it is never
// changed after NewPublic. None of them bounds the time of a request: each method of
// the service does that for itself.
type public struct {
	service  *shortener.Service
	origin   *origin
	scanners *scanners
	pages    *pages
	metrics  *metrics
	problems *problemWriter
	degraded func() bool
}

// NewPublic makes the handler of the public listener. It may be used by any
// number of goroutines and has nothing to close. It panics when the registerer
// has metrics of these names already.
func NewPublic(cfg PublicConfig) *echo.Echo {
	if cfg.Degraded == nil {
		cfg.Degraded = func() bool { return false }
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	o, ui := newOrigin(cfg.BaseURL, cfg.TrustedProxies), newPages()
	p := &public{
		service:  cfg.Service,
		origin:   o,
		scanners: newScanners(),
		pages:    ui,
		metrics:  newMetrics(cfg.Registerer),
		problems: newProblemWriter(ui, o, cfg.Logger),
		degraded: cfg.Degraded,
	}
	return p.router()
}

func (p *public) router() *echo.Echo {
	e := echo.New()
	// Without an extractor of its own echo believes any X-Forwarded-For.
	e.IPExtractor = p.origin.extractor()
	e.HTTPErrorHandler = p.problems.write
	e.Use(p.instrument)

	p.serve(e, "/", p.home, http.MethodGet, http.MethodHead)
	p.serve(e, routeShorten, p.create, http.MethodPost)
	p.serve(e, routeCode, p.code, http.MethodGet, http.MethodHead)
	p.serve(e, "/healthz", p.health, http.MethodGet, http.MethodHead)
	for _, f := range staticFiles() {
		p.serve(e, f.path, f.serve, http.MethodGet, http.MethodHead)
	}
	return e
}

// refused is the name of routes that only say which methods there are.
const refused = "refused"

// serve registers h for methods, and for every other one, OPTIONS included, a 405
// that names what is allowed.
func (p *public) serve(e *echo.Echo, path string, h echo.HandlerFunc, methods ...string) {
	for _, m := range methods {
		e.Add(m, path, h)
	}
	refuse := func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderAllow, strings.Join(methods, ", "))
		return echo.ErrMethodNotAllowed
	}
	e.RouteNotFound(path, refuse).Name = refused
	// Left to itself the router would take GET of a path that has only POST for a code.
	for _, m := range []string{http.MethodGet, http.MethodHead} {
		if !slices.Contains(methods, m) {
			e.Add(m, path, refuse).Name = refused
		}
	}
}

// health answers 200 while links can be made and followed.
func (p *public) health(c echo.Context) error {
	if err := p.service.Ready(c.Request().Context()); err != nil {
		return err
	}
	return writeHealth(c.Response(), p.degraded())
}
