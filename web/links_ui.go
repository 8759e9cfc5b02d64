package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/httpserver"
	"keypool/web/internal/problem"
	"keypool/web/internal/qr"
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
		Secure:       func(r *http.Request) bool { return strings.HasPrefix(p.proxies.Origin(r).String(), "https:") },
	}
	if cfg.UserHeader != "" {
		entrance = ui.Proxy{
			Header: cfg.UserHeader, Named: cfg.Tokens.Named,
			Trusted: func(r *http.Request) bool { return p.proxies.Trusts(r.RemoteAddr) },
		}
	}
	limits := uiLimits{p.limits, p.proxies.Address}
	pages := echo.WrapHandler(ui.New(ui.Config{
		Service: p.service, Base: publicBase, Entrance: entrance, Tokens: cfg.Tokens, Origin: p.proxies.Origin, Problem: problemForUI,
		Limits: limits, Visits: p.visits.daily(), Drawer: p.drawer, Client: limits.client, Logger: log,
		Footer: []shell.Link{{Path: "/", Text: "Home"}, {Path: "/docs", Text: "API"}},
	}))
	checked := func(c echo.Context) error {
		if !p.proxies.Addressed(c.Request()) {
			return problem.ErrMisdirected
		}
		if _, err := p.proxies.Self(c); err != nil { // without its origin, the service could not recognise a link that leads back to it
			return err
		}
		return pages(c)
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	p.serve(e, publicBase, checked, methods...)
	p.serve(e, publicBase+"/*", checked, methods...)
	p.pages.shell.Footer = append(p.pages.shell.Footer, shell.Link{Path: publicBase + "/", Text: "Manage links"})
}

// AdminUIConfig holds what the pages for links on the admin listener need.
type AdminUIConfig struct {
	Service *service.Service
	Tokens  *token.Registry
	BaseURL string  // prefix of short URLs; if empty, each request determines the prefix
	Visits  *Visits // nil if visits are not counted
	Logger  *slog.Logger
}

// NewAdminUI returns the pages for links on the admin listener. The handler answers requests for /links and for the paths
// below /links. Each client is the operator, who sees and changes all links. NewAdminUI panics if BaseURL is neither empty
// nor an origin.
func NewAdminUI(cfg AdminUIConfig) http.Handler {
	return ui.New(ui.Config{
		Service: cfg.Service, Base: adminBase, Entrance: ui.Operator{}, Tokens: cfg.Tokens, Origin: client.NewProxies(cfg.BaseURL, nil, cfg.Logger).Origin,
		Problem: problemForUI, Visits: cfg.Visits.daily(), Drawer: qr.NewDrawer(), Client: operatorAt, Logger: cfg.Logger,
		Footer: []shell.Link{{Path: "/", Text: "Dashboard"}},
	})
}

// operatorAt returns the client of the admin listener that sent r.
func operatorAt(r *http.Request) netip.Prefix {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	return httpserver.ClientOf(peer.Addr())
}

func problemForUI(err error) (reply.Problem, int) { return problem.Of(err), problem.RetrySeconds(err) }

// uiLimits applies the limits of the public listener to the pages for links.
type uiLimits struct {
	*client.Limiters
	address echo.IPExtractor
}

func (l uiLimits) client(r *http.Request) netip.Prefix { return client.PrefixOf(l.address(r)) }

// Spend implements [ui.Limits].
func (l uiLimits) Spend(t token.Token) error { return l.SpendLine(t) }

// Admit implements [ui.Limits].
func (l uiLimits) Admit(r *http.Request) error { return l.Misses.Admit(l.client(r)) }

// Missed implements [ui.Limits].
func (l uiLimits) Missed(r *http.Request) { l.Misses.Count(l.client(r)) }
