package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"keypool/shortener/destination"
)

// origin determines the scheme, host and port under which a client reaches this service.
// It uses forwarding headers only if the connection comes from a trusted proxy.
type origin struct {
	configured destination.Origin // if zero, each request determines the origin
	trusted    []netip.Prefix
	log        *slog.Logger
	ignored    *rate.Sometimes // limits the log lines about ignored headers
}

// newOrigin panics if base is neither empty nor an origin. The caller has already validated
// the settings.
func newOrigin(base string, trusted []netip.Prefix, log *slog.Logger) *origin {
	o := &origin{trusted: trusted, log: log, ignored: &rate.Sometimes{Interval: time.Minute}}
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
	return err == nil && o.isProxy(peer.Addr())
}

func (o *origin) isProxy(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(o.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// client returns the address of the client of r. It implements [echo.IPExtractor]. It is the address of the
// connection unless the connection comes from a trusted proxy. Behind trusted proxies, it is the nearest forwarded
// address that is not a trusted proxy.
func (o *origin) client(r *http.Request) string {
	forwarded := r.Header[echo.HeaderXForwardedFor]
	if len(forwarded) == 0 {
		return direct(r)
	}
	if !o.trusts(r.RemoteAddr) {
		o.ignored.Do(func() {
			o.log.Warn("the forwarded addresses of clients are ignored, because their sender is not a trusted proxy; if it is a proxy, add its address to TRUSTED_PROXIES",
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
		if client = addr.String(); !o.isProxy(addr) {
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
