package client

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"keypool/shortener/destination"
	"keypool/web/internal/problem"
)

// Proxies knows the reverse proxies in front of this service. It determines the address of a client, and the scheme, host
// and port under which the client reaches this service. It uses forwarding headers only if the connection comes from a
// trusted proxy. It is safe for concurrent use.
type Proxies struct {
	self    destination.Origin // if zero, each request determines the origin
	trusted []netip.Prefix
	log     *slog.Logger
	ignored *rate.Sometimes // limits the log lines about ignored headers
	latest  atomic.Pointer[lastOrigin]
}

// lastOrigin holds an origin, and the scheme and the Host header from which it was parsed.
type lastOrigin struct {
	scheme, host string
	origin       destination.Origin
}

// NewProxies returns the Proxies of a service. base is the base URL of the service, or "" if no base URL is configured.
// The caller must have checked base: NewProxies panics if base is not an origin.
func NewProxies(base string, trusted []netip.Prefix, log *slog.Logger) *Proxies {
	p := &Proxies{trusted: trusted, log: log, ignored: &rate.Sometimes{Interval: time.Minute}}
	if base == "" {
		return p
	}
	var ok bool
	if p.self, ok = destination.ParseOrigin(strings.TrimRight(base, "/")); !ok {
		panic("client: the base URL " + strconv.Quote(base) + " is not http(s)://host[:port]")
	}
	return p
}

// Origin returns the origin under which the client of r reaches this service. Short URLs begin
// with this origin. The result is the zero Origin if no origin is configured and the Host
// header of r is not a valid host of a URL.
func (p *Proxies) Origin(r *http.Request) destination.Origin {
	if !p.self.IsZero() {
		return p.self
	}
	return p.parse(p.scheme(r), r.Host)
}

// parse returns the origin with this scheme and host, or the zero Origin if host is not valid in a link. It keeps the
// latest origin, because almost all requests to a service have the same origin.
func (p *Proxies) parse(scheme, host string) destination.Origin {
	if l := p.latest.Load(); l != nil && l.scheme == scheme && l.host == host {
		return l.origin
	}
	origin, ok := destination.ParseOrigin(scheme + "://" + host)
	if ok {
		// Copy the host, because it may share memory with all headers of the request.
		p.latest.Store(&lastOrigin{scheme, strings.Clone(host), origin})
	}
	return origin
}

// Self is like Origin, but fails instead of returning the zero Origin.
func (p *Proxies) Self(c echo.Context) (destination.Origin, error) {
	self := p.Origin(c.Request())
	if self.IsZero() {
		return self, problem.Malformed("The Host header does not name a host that a short URL can contain.")
	}
	return self, nil
}

// Addressed reports whether the Host header names the host of this service. Without a configured origin it returns true,
// because every host may be a name of this service.
func (p *Proxies) Addressed(r *http.Request) bool {
	if p.self.IsZero() {
		return true
	}
	named := p.parse(p.scheme(r), r.Host)
	return !named.IsZero() && named.SameHost(p.self)
}

// scheme returns the scheme with which the client of r reaches this service. If each proxy of a chain appends its
// scheme to the header, the first scheme is the scheme of the client.
func (p *Proxies) scheme(r *http.Request) string {
	if forwarded := r.Header.Get(echo.HeaderXForwardedProto); forwarded != "" && p.Trusts(r.RemoteAddr) {
		first, _, _ := strings.Cut(forwarded, ",")
		if strings.EqualFold(strings.TrimSpace(first), "https") {
			return "https"
		}
		return "http"
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// Trusts reports whether a connection from remote, an address with a port, comes from a trusted proxy.
func (p *Proxies) Trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	return err == nil && p.isProxy(peer.Addr())
}

// isProxy reports whether an address belongs to a trusted proxy. An IPv4 address may be mapped to IPv6, and a zone is
// ignored.
func (p *Proxies) isProxy(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Address returns the address of the client of r. It implements [echo.IPExtractor]. If the connection does not come
// from a trusted proxy, the result is the address of the connection. Behind trusted proxies, the result is the nearest
// forwarded address that is not a trusted proxy. Address reads the forwarded addresses from the nearest to the farthest.
// It stops at the first text that is not an address. If it has read only addresses of trusted proxies, the result is the
// farthest of these addresses. If it has read no address, the result is the address of the connection.
func (p *Proxies) Address(r *http.Request) string {
	forwarded := r.Header[echo.HeaderXForwardedFor]
	if len(forwarded) == 0 {
		return direct(r)
	}
	if !p.Trusts(r.RemoteAddr) {
		p.ignored.Do(func() {
			p.log.Warn("the forwarded addresses of clients are ignored, because their sender is not a trusted proxy; if the sender is your proxy, add its address to TRUSTED_PROXIES",
				"header", echo.HeaderXForwardedFor, "sender", direct(r))
		})
		return direct(r)
	}
	client := direct(r)
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break
		}
		if client = addr.String(); !p.isProxy(addr) {
			break
		}
	}
	return client
}

// direct returns the address of the connection of r.
func direct(r *http.Request) string { return echo.ExtractIPDirect()(r) }

// parseHop parses an address of X-Forwarded-For. Some proxies append the port of the client.
func parseHop(text string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr, err == nil
}
