package web

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/shortener/destination"
)

// origin determines the scheme, host and port under which a client reaches this service.
// It uses forwarding headers only if the connection comes from a trusted proxy.
type origin struct {
	configured destination.Origin // if zero, each request determines the origin
	trusted    []netip.Prefix
}

// newOrigin panics if base is neither empty nor an origin. The caller has already validated
// the settings.
func newOrigin(base string, trusted []netip.Prefix) *origin {
	o := &origin{trusted: trusted}
	if base == "" {
		return o
	}
	var ok bool
	if o.configured, ok = destination.ParseOrigin(strings.TrimRight(base, "/")); !ok {
		panic("web: the base URL " + strconv.Quote(base) + " is not http(s)://host[:port]")
	}
	return o
}

// of returns the origin under which the client of r reaches this service. Short URLs begin
// with this origin. The result is the zero Origin if no origin is configured and the Host
// header of r names no host that a link could lead to.
func (o *origin) of(r *http.Request) destination.Origin {
	if !o.configured.IsZero() {
		return o.configured
	}
	self, _ := destination.ParseOrigin(o.scheme(r) + "://" + r.Host)
	return self
}

// addressed reports whether the Host header names the host of this service. Without a configured origin, every host may
// be a name of this service.
func (o *origin) addressed(r *http.Request) bool {
	if o.configured.IsZero() {
		return true
	}
	named, ok := destination.ParseOrigin(o.scheme(r) + "://" + r.Host)
	return ok && named.SameHost(o.configured)
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

// extractor returns the function with which echo determines the address of a client.
// Without trusted proxies, it is the address of the connection. Behind trusted proxies, it
// is the nearest forwarded address that is not a trusted proxy.
func (o *origin) extractor() echo.IPExtractor {
	if len(o.trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	// Without these options, echo would trust private networks.
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
