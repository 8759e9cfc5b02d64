package app

import (
	"net/http"

	"keypool/cmd/internal/config"
	"keypool/kgs/keyserver"
	"keypool/web/httpserver"
)

// serveKeys serves keys to other programs on the public listener.
func (p *Program) serveKeys(s config.KeyService, c *Core, ready func() bool) {
	srv := httpserver.New(keyserver.New(keyserver.Config{
		Ledger: c.ledger, Space: c.Space, Length: c.CodeLength, Clients: s.Clients, Rate: s.ClientRate,
		Ready: ready, Logger: c.Log, Metrics: c.metrics, Registerer: c.Registry,
	}), c.Log)
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true) // gRPC without TLS, or behind a proxy that terminates it
	p.ServePublic("key listener", srv)
}
