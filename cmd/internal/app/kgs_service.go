package app

import (
	"fmt"
	"net/http"

	"keypool/kgs/keyserver"
	"keypool/web/httpserver"
)

// KGSFlags are the settings that only the program kgs has.
type KGSFlags struct {
	ListenAddr string `name:"kgs-listen-addr" env:"KGS_LISTEN_ADDR" default:":8082" help:"Where other programs take keys, over gRPC and HTTP; only with KGS_TOKENS."`
	Tokens     string `name:"kgs-tokens" env:"KGS_TOKENS" help:"The programs that may take keys, and their secrets: client=token,client2=token2."`
	ClientRate string `name:"kgs-client-rate" env:"KGS_CLIENT_RATE" default:"1000000" help:"Keys a second that each of them may take from this process."`
}

// KGSSettings are what the program kgs goes by: it fills the pool of a RedisURL, serves
// keys to Clients, or both.
type KGSSettings struct {
	Settings
	ListenAddr string
	Clients    []keyserver.Client // none: keys are not served
	ClientRate int64
}

// Parse reads the settings of the program kgs.
func (f KGSFlags) Parse(common Flags) (KGSSettings, error) {
	var p parser
	s := KGSSettings{
		Settings:   p.settings(common),
		ListenAddr: p.address("KGS_LISTEN_ADDR", f.ListenAddr),
		Clients:    p.clients("KGS_TOKENS", f.Tokens),
		ClientRate: p.number("KGS_CLIENT_RATE", f.ClientRate, 1, 1_000_000_000),
	}
	if s.RedisURL == "" && len(s.Clients) == 0 {
		p.refuse("REDIS_URL", "", "the address of the Redis whose pool this program is to fill, unless KGS_TOKENS has it serve keys")
	}
	return s, p.err
}

func (p *parser) clients(name, text string) []keyserver.Client {
	if text == "" {
		return nil
	}
	clients, err := keyserver.ParseClients(text)
	if err != nil {
		p.refuse(name, fmt.Sprintf("%d characters (not shown)", len(text)), keyserver.ClientsForm)
	}
	return clients
}

// serveKeys answers on the public listener.
func (p *Program) serveKeys(s KGSSettings, c *core, ready func() bool) {
	srv := httpserver.New(keyserver.New(keyserver.Config{
		Ledger: c.ledger, Space: c.space, Length: c.CodeLength, Clients: s.Clients, Rate: s.ClientRate,
		Ready: ready, Logger: c.log, Metrics: c.metrics, Registerer: c.registry,
	}), c.log)
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true) // gRPC without TLS, or behind what ends it
	p.serve("key listener", srv, p.public, publicGrace)
}
