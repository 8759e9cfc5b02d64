package web

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/internal/reply"
	"keypool/web/internal/shell"
	"keypool/web/ui"
)

// Paths of the pages on which people manage links.
const (
	publicBase = "/admin"
	adminBase  = "/links"
)

// UIConfig configures the pages for links on the public listener.
type UIConfig struct {
	Tokens     *token.Registry
	UserHeader string // header of a trusted proxy with the name of the person; if empty, people sign in with a token
}

// serveUI registers the pages for links.
func (p *public) serveUI(e *echo.Echo, cfg UIConfig, log *slog.Logger) {
	var entrance ui.Entrance = ui.Session{
		Authenticate: cfg.Tokens.Authenticate,
		Secure:       func(r *http.Request) bool { return strings.HasPrefix(p.origin.of(r).String(), "https:") },
	}
	if cfg.UserHeader != "" {
		entrance = ui.Proxy{
			Header: cfg.UserHeader, Named: cfg.Tokens.Named,
			Trusted: func(r *http.Request) bool { return p.origin.trusts(r.RemoteAddr) },
		}
	}
	pages := echo.WrapHandler(ui.New(ui.Config{
		Service: p.service, Base: publicBase, Entrance: entrance, Tokens: cfg.Tokens, Origin: p.origin.of, Problem: problemForUI,
		Limits: uiLimits{p.limits, p.origin.client}, Visits: p.visits.daily(), Logger: log,
		Footer: []shell.Link{{Path: "/", Text: "Home"}, {Path: "/docs", Text: "API"}},
	}))
	checked := func(c echo.Context) error {
		if !p.origin.addressed(c.Request()) {
			return errMisdirected
		}
		return pages(c)
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	p.serve(e, publicBase, checked, methods...)
	p.serve(e, publicBase+"/*", checked, methods...)
	p.pages.shell.Footer = append(p.pages.shell.Footer, shell.Link{Path: publicBase + "/", Text: "Manage links"})
}

// errMisdirected reports that a request for the pages names another host than BaseURL. Such a host may belong to another
// site, whose name leads to this service for a moment (DNS rebinding).
var errMisdirected = errors.New("the Host header names another host")

// AdminUIConfig holds what the pages for links on the admin listener need.
type AdminUIConfig struct {
	Service *shortener.Service
	Tokens  *token.Registry
	BaseURL string  // prefix of short URLs
	Visits  *Visits // nil if visits are not counted
	Logger  *slog.Logger
}

// NewAdminUI returns the pages for links on the admin listener. It answers requests for /links and the paths below.
// Each client is the operator, who sees and changes all links. NewAdminUI panics if the base URL is not an origin.
func NewAdminUI(cfg AdminUIConfig) http.Handler {
	return ui.New(ui.Config{
		Service: cfg.Service, Base: adminBase, Entrance: ui.Operator{}, Tokens: cfg.Tokens, Origin: newOrigin(cfg.BaseURL, nil, cfg.Logger).of,
		Problem: problemForUI, Visits: cfg.Visits.daily(), Logger: cfg.Logger,
		Footer: []shell.Link{{Path: "/", Text: "Dashboard"}},
	})
}

func problemForUI(err error) (reply.Problem, int) { return problemOf(err), retrySeconds(err) }

// uiLimits applies the limits of the public listener to the pages for links.
type uiLimits struct {
	*limits
	address echo.IPExtractor
}

// Spend implements [ui.Limits].
func (l uiLimits) Spend(t token.Token) error { return l.spendLine(t) }

// Admit implements [ui.Limits].
func (l uiLimits) Admit(r *http.Request) error { return l.misses.admit(clientPrefix(l.address(r))) }

// Missed implements [ui.Limits].
func (l uiLimits) Missed(r *http.Request) { l.misses.count(clientPrefix(l.address(r))) }
