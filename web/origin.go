package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// origin knows under which address a client reached this service. Forwarding
// headers count only when the connection itself comes from a trusted proxy.
type origin struct {
	base    string // configured prefix of short URLs without its last slash, or empty
	self    string // scheme://host[:port] of base
	trusted []netip.Prefix
}

func newOrigin(base string, trusted []netip.Prefix) *origin {
	base = strings.TrimRight(base, "/")
	self := base
	if scheme, rest, ok := strings.Cut(base, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		self = scheme + "://" + host
	}
	return &origin{base: base, self: self, trusted: trusted}
}

// of gives the prefix of short URLs and the service's own scheme://host[:port], both
// as the client of r knows them. Empty when neither the configuration nor r has a host.
func (o *origin) of(r *http.Request) (base, self string) {
	if o.base != "" {
		return o.base, o.self
	}
	if r.Host == "" {
		return "", ""
	}
	self = o.scheme(r) + "://" + r.Host
	return self, self
}

func (o *origin) scheme(r *http.Request) string {
	if forwarded := r.Header.Get(echo.HeaderXForwardedProto); forwarded != "" && o.trusts(r.RemoteAddr) {
		if strings.EqualFold(forwarded, "https") {
			return "https"
		}
		return "http"
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func (o *origin) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, p := range o.trusted {
		if p.Contains(peer.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// extractor gives echo its way to the client's address: the connection's own, or
// behind trusted proxies the nearest address that is none of theirs.
func (o *origin) extractor() echo.IPExtractor {
	if len(o.trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	// echo trusts private networks unless told not to.
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range o.trusted {
		p = p.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP:   p.Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}
