// Package api answers the HTTP requests of programs: POST /shorten, and the paths below /api/. Package web registers the
// routes of this package on the public listener.
//
// Invariants:
//
//   - a handler checks the size, media type and syntax of a request before it uses the content;
//   - a creation with an invalid token is refused, even if the service permits anonymous creations;
//   - a token without the scope admin sees and changes only its own links: each handler passes the
//     [service.Actor] of the request to the service.
package api

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"keypool/internal/slots"
	"keypool/shortener/service"
	"keypool/shortener/visits"
	"keypool/web/client"
	"keypool/web/internal/problem"
)

// Route patterns of the router, which are also labels of the metrics.
const (
	RouteShorten = "/shorten"

	routeLinks     = "/api/links"
	routeLink      = "/api/links/:code"
	routeVisits    = routeLink + "/visits"
	routeReferrers = routeVisits + "/referrers"
	routeCountries = routeVisits + "/countries"
	routeDevices   = routeVisits + "/devices"
	routeTop       = "/api/visits/top"
)

// Config holds what the API needs. Counter and Visits are nil if visits are not counted. No other field may be nil.
type Config struct {
	Service  *service.Service
	Proxies  *client.Proxies
	Tokens   client.Tokens
	Limits   *client.Limiters
	Counter  *visits.Counter
	Visits   visits.Store // the counts of visits
	Problems *problem.Writer
	// Created answers a browser with a page that shows the new link.
	Created func(c echo.Context, status int, l *Link) error
	Logger  *slog.Logger
}

// API holds the handlers. It is safe for concurrent use. The handlers set no deadlines for calls of the service because each
// method of the service limits its own time.
type API struct {
	service  *service.Service
	proxies  *client.Proxies
	tokens   client.Tokens
	limits   *client.Limiters
	counter  *visits.Counter
	visits   visits.Store
	problems *problem.Writer
	created  func(c echo.Context, status int, l *Link) error
	log      *slog.Logger
	bulks    *slots.Slots[int64]
	buffers  buffers
}

// New returns the API.
func New(cfg Config) *API {
	return &API{
		service: cfg.Service, proxies: cfg.Proxies, tokens: cfg.Tokens, limits: cfg.Limits, counter: cfg.Counter,
		visits: cfg.Visits, problems: cfg.Problems, created: cfg.Created, log: cfg.Logger,
		bulks: slots.NewShared[int64](maxBulks, 1),
	}
}

// Register passes each route to serve, with its handler and the methods that the handler answers.
func (a *API) Register(serve func(path string, h echo.HandlerFunc, methods ...string)) {
	serve(RouteShorten, a.create, http.MethodPost)
	serve(routeLinks, a.links, http.MethodGet, http.MethodHead, http.MethodPost)
	serve(routeLink, a.link, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodDelete)
	for path, h := range map[string]echo.HandlerFunc{
		routeVisits:    a.linkVisits,
		routeReferrers: func(c echo.Context) error { return a.facet(c, visits.Referrers) },
		routeCountries: func(c echo.Context) error { return a.facet(c, visits.Countries) },
		routeDevices:   func(c echo.Context) error { return a.facet(c, visits.Devices) },
		routeTop:       a.topVisits,
	} {
		serve(path, h, http.MethodGet, http.MethodHead)
	}
}
