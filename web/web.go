// Package web serves the public HTTP listener of the program shortener: redirects, previews, QR codes and the page on which
// people create links. Package web/api has the API, and package web/ui has the pages for the owners of links. Package
// web/admin serves the listener for operators.
//
// Invariants:
//
//   - forwarding headers are used only if the peer is a trusted proxy (web/client);
//   - one table maps errors to problems, the error answers of RFC 9457 (web/internal/problem);
//   - no metric label contains a code, a path of a request, an address or a token; methodLabel limits the methods in labels.
package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener/service"
	"keypool/web/api"
	"keypool/web/client"
	"keypool/web/internal/problem"
	"keypool/web/internal/qr"
	"keypool/web/internal/reply"
	"keypool/web/internal/shell"
)

// Route patterns of the router, which are also labels of the metrics.
const (
	routeCode    = "/:code"
	routePreview = "/:code+" // only a label: the router passes previews and QR codes to routeCode
)

// PublicConfig holds what the public handler needs. Only Service is required.
type PublicConfig struct {
	Service        *service.Service
	BaseURL        string         // prefix of short URLs; if empty, each request determines the prefix
	TrustedProxies []netip.Prefix // peers whose X-Forwarded-For and X-Forwarded-Proto headers are used
	Tokens         client.Tokens  // if nil, no token is valid
	Limits         client.Limits
	HomeURL        string         // if not empty, / redirects browsers to this URL
	NotFoundURL    string         // if not empty, an unknown code redirects browsers to this URL
	ReportURL      string         // where people report a link; if empty, the preview page has no such link
	Degraded       func() bool    // reports whether the service works without one of its parts, such as the pool; nil means never
	Visits         *Visits        // if nil, visits are not counted
	RedirectAge    *time.Duration // how long browsers may cache a redirect, in whole seconds; if nil, DefaultRedirectAge
	Metrics        *Metrics       // if nil, counts are not exported
	Logger         *slog.Logger   // if nil, nothing is logged
	UI             *UIConfig      // pages for the owners of links at /admin/; nil for none
}

// public holds the dependencies of the handlers. It does not change after NewPublic. The
// handlers set no deadlines because each method of the service limits its own time.
type public struct {
	service  *service.Service
	proxies  *client.Proxies
	limits   *client.Limiters
	drawer   *qr.Drawer
	pages    *pages
	metrics  *Metrics
	problems *problem.Writer
	visits   *Visits // nil if visits are not counted
	age      redirectAge
	degraded func() bool
	homeURL  string
	missURL  string // NotFoundURL
}

// NewPublic returns the handler of the public listener. It is safe for concurrent use and
// does not need to be closed.
func NewPublic(cfg PublicConfig) *echo.Echo {
	if cfg.Degraded == nil {
		cfg.Degraded = func() bool { return false }
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Tokens == nil {
		cfg.Tokens = client.NoTokens{}
	}
	if cfg.RedirectAge == nil {
		cfg.RedirectAge = new(DefaultRedirectAge)
	}
	p := &public{
		service:  cfg.Service,
		proxies:  client.NewProxies(cfg.BaseURL, cfg.TrustedProxies, cfg.Logger),
		limits:   client.NewLimiters(cfg.Limits, cfg.Metrics.limited),
		drawer:   qr.NewDrawer(),
		metrics:  cfg.Metrics,
		visits:   cfg.Visits,
		age:      newRedirectAge(*cfg.RedirectAge),
		degraded: cfg.Degraded,
		homeURL:  cfg.HomeURL,
		missURL:  cfg.NotFoundURL,
	}
	p.pages = newPages(cfg.Limits, cfg.ReportURL, p.proxies)
	p.problems = problem.NewWriter(p.pages.problem, cfg.Logger)
	e := p.router()
	p.newAPI(cfg.Tokens, cfg.Logger).Register(func(path string, h echo.HandlerFunc, methods ...string) { p.serve(e, path, h, methods...) })
	if cfg.UI != nil {
		p.serveUI(e, *cfg.UI, cfg.Logger)
	}
	return e
}

func (p *public) newAPI(tokens client.Tokens, log *slog.Logger) *api.API {
	cfg := api.Config{
		Service: p.service, Proxies: p.proxies, Tokens: tokens, Limits: p.limits, Problems: p.problems, Created: p.pages.created, Logger: log,
	}
	if p.visits != nil {
		cfg.Counter, cfg.Visits = p.visits.Counter, p.visits.Store
	}
	return api.New(cfg)
}

// router returns the router with all routes except the routes of the API and of the pages for links.
func (p *public) router() *echo.Echo {
	e := echo.New()
	// The default extractor of echo trusts the X-Forwarded-For header of every peer.
	e.IPExtractor = p.proxies.Address
	e.HTTPErrorHandler = p.problems.Write
	e.Use(p.instrument)

	p.serve(e, "/", p.home, http.MethodGet, http.MethodHead)
	p.serve(e, routeCode, p.code, http.MethodGet, http.MethodHead)
	p.serve(e, routeCode+"/*", p.codePath, http.MethodGet, http.MethodHead)
	p.serve(e, "/healthz", p.health, http.MethodGet, http.MethodHead)
	p.serve(e, "/docs", newDocs(p.pages.shell).serve, http.MethodGet, http.MethodHead)
	for _, f := range staticFiles() {
		p.serve(e, f.path, f.serve, http.MethodGet, http.MethodHead)
	}
	return e
}

// refused is the name of every route that only answers 405.
const refused = "refused"

// serve registers h for methods. Every other method, OPTIONS included, gets a 405 with an
// Allow header.
func (p *public) serve(e *echo.Echo, path string, h echo.HandlerFunc, methods ...string) {
	for _, m := range methods {
		e.Add(m, path, h)
	}
	refuse := func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderAllow, strings.Join(methods, ", "))
		return echo.ErrMethodNotAllowed
	}
	e.RouteNotFound(path, refuseUnknownMethod).Name = refused
	// Without the routes of this loop, the router would handle GET /shorten as a request for a code, and PUT /api/links
	// as a request for /{code}/*.
	for _, m := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace,
	} {
		if !slices.Contains(methods, m) {
			e.Add(m, path, refuse).Name = refused
		}
	}
}

// refuseUnknownMethod refuses a method that no route has, such as PROPFIND. For such a method, the router may select the
// route of a less specific path, which would send another Allow header. Therefore refuseUnknownMethod selects the route
// again, as if the method were TRACE: every path has a route that refuses TRACE with the correct Allow header.
func refuseUnknownMethod(c echo.Context) error {
	c.Echo().Router().Find(http.MethodTrace, echo.GetPath(c.Request()), c)
	return c.Handler()(c)
}

// health answers 200 while links can be created and followed.
func (p *public) health(c echo.Context) error {
	if err := p.service.Ready(c.Request().Context()); err != nil {
		return err
	}
	return reply.Health(c.Response(), p.degraded())
}

// staticFile is an embedded file that the listener serves unchanged.
type staticFile struct {
	path, media string
	content     []byte
}

func staticFiles() []staticFile {
	return []staticFile{
		{"/openapi.yaml", "application/yaml", shell.Asset(assets, "assets/openapi.yaml")},
		{"/robots.txt", "text/plain; charset=utf-8", shell.Asset(assets, "assets/robots.txt")},
		{"/favicon.ico", "image/x-icon", shell.Favicon()},
	}
}

func (f staticFile) serve(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=86400")
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.Blob(http.StatusOK, f.media, f.content)
}
