package server

import (
	"cmp"
	"log/slog"
	"net/http"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/web"
)

// adminUI returns the pages for links on the admin listener. Without BASE_URL, the short URLs on these pages begin with the URL at
// which clients on this machine reach the public listener.
func adminUI(p *program.Program, s config.Serve, links *service.Service, tokens *token.Registry, visits *web.Visits, log *slog.Logger) http.Handler {
	base := cmp.Or(string(s.BaseURL), p.URL())
	if _, ok := destination.ParseOrigin(base); !ok { // the host is an IPv6 address with a zone, which a URL of a link cannot contain
		base = "http://localhost"
	}
	return web.NewAdminUI(web.AdminUIConfig{Service: links, Tokens: tokens, BaseURL: base, Visits: visits, Logger: log})
}

// publicUI returns the settings of the pages for links on the public listener, or nil if UI is off.
func publicUI(s config.Serve, tokens *token.Registry) *web.UIConfig {
	switch s.UI {
	case config.UIToken:
		return &web.UIConfig{Tokens: tokens}
	case config.UIHeader:
		return &web.UIConfig{Tokens: tokens, UserHeader: string(s.UIUserHeader)}
	}
	return nil
}
