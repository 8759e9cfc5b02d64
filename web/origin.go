package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"keypool/shortener"

	"github.com/labstack/echo/v4"
)

// origin knows under which address a client reached this service. Forwarding
// headers count only when the connection itself comes from a trusted proxy.
type origin struct {
	base    string // scheme://host[:port] as configured, or empty
	trusted []netip.Prefix
}

func newOrigin(base string, trusted []netip.Prefix) *origin {
	return &origin{base: strings.TrimRight(base, "/"), trusted: trusted}
}

// of gives the service's own scheme://host[:port] as the client of r knows it: what short
// URLs begin with. Empty when it is not configured and r names no host that a link
// could lead to.
func (o *origin) of(r *http.Request) string {
	if o.base != "" {
		return o.base
	}
	host, ok := shortener.ASCIIAuthority(r.Host)
	if !ok {
		return ""
	}
	return o.scheme(r) + "://" + host
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
