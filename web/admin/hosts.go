package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"keypool/web/internal/reply"
)

// OnlyHosts returns a handler that passes a request to h if its Host header names an IP address, localhost or one of
// names. It answers other requests with 421. The names must be in lower case.
//
// The admin listener has no login. Without this check, a page of another site could read the answers of this listener through
// the browser of an operator. The DNS name of that site would first resolve to the address of the site, and then to the
// address of this listener (DNS rebinding).
func OnlyHosts(h http.Handler, names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if acceptsHost(r.Host, names) {
			h.ServeHTTP(w, r)
			return
		}
		_ = reply.Problem{ // an error means that the client has disconnected
			Type: reply.TypePrefix + "misdirected", Title: "The host is not a host of this listener", Status: http.StatusMisdirectedRequest,
			Detail: "Use an IP address or localhost, or list the host in ADMIN_HOSTS.",
		}.Write(w)
	})
}

func acceptsHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || slices.Contains(names, host)
}
