package client

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestOriginUsesForwardingHeadersOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := []struct {
		name, configured string
		trusted          []netip.Prefix
		remote, proto    string
		tls              bool
		want             string
	}{
		{"plain HTTP", "", nil, "192.0.2.1:1", "", false, "http://sho.rt:81"},
		{"TLS", "", nil, "192.0.2.1:1", "", true, "https://sho.rt:81"},
		{"header without trusted proxies", "", nil, "192.0.2.1:1", "https", false, "http://sho.rt:81"},
		{"private address is not trusted", "", nil, "127.0.0.1:1", "https", false, "http://sho.rt:81"},
		{"header of an untrusted peer", "", proxy, "192.0.2.1:1", "https", false, "http://sho.rt:81"},
		{"header of a trusted proxy", "", proxy, "10.1.2.3:1", "HTTPS", false, "https://sho.rt:81"},
		{"header of a trusted IPv6 proxy", "", proxy, "[fd00::1%eth0]:1", "https", false, "https://sho.rt:81"},
		{"proxy with an IPv4-mapped address", "", proxy, "[::ffff:10.1.2.3]:1", "https", false, "https://sho.rt:81"},
		{"unknown scheme in the header", "", proxy, "10.1.2.3:1", "javascript", false, "http://sho.rt:81"},
		{"the client uses HTTPS and the proxies use HTTP", "", proxy, "10.1.2.3:1", "https , http", false, "https://sho.rt:81"},
		{"the client uses HTTP and the proxies use HTTPS", "", proxy, "10.1.2.3:1", "http, https", false, "http://sho.rt:81"},
		{"configured origin", "https://k.example/", nil, "192.0.2.1:1", "", false, "https://k.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://sho.rt:81/", nil)
			r.RemoteAddr = tt.remote
			r.Header.Set("X-Forwarded-Host", "evil.example")
			if tt.proto != "" {
				r.Header.Set("X-Forwarded-Proto", tt.proto)
			}
			if tt.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if got := NewProxies(tt.configured, tt.trusted, slog.New(slog.DiscardHandler)).Origin(r).String(); got != tt.want {
				t.Errorf("the origin is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestClientAddressUsesForwardingHeaderOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.7/8")}
	tests := []struct {
		name, remote, forwarded string
		trusted                 []netip.Prefix
		want                    string
	}{
		{"direct connection", "192.0.2.1:1", "", nil, "192.0.2.1/32"},
		{"header without trusted proxies", "192.0.2.1:1", "198.51.100.9", nil, "192.0.2.1/32"},
		{"private address is not trusted", "127.0.0.1:1", "198.51.100.9", nil, "127.0.0.1/32"},
		{"behind a proxy", "10.0.0.1:1", "198.51.100.9", proxy, "198.51.100.9/32"},
		{"forged address before the client's address", "10.0.0.1:1", "1.1.1.1, 198.51.100.9, 10.0.0.2", proxy, "198.51.100.9/32"},
		{"loopback is no proxy", "127.0.0.1:1", "198.51.100.9", proxy, "127.0.0.1/32"},
		{"header without an address", "10.0.0.1:1", "unknown", proxy, "10.0.0.1/32"},
		{"address with a port", "10.0.0.1:1", "198.51.100.9:4711", proxy, "198.51.100.9/32"},
		{"IPv6 address with a port", "10.0.0.1:1", "[2001:db8:1:2::3]:4711, 10.0.0.2:80", proxy, "2001:db8:1:2::/64"},
		{"IPv6 address in brackets", "10.0.0.1:1", "[2001:db8:1:2::3]", proxy, "2001:db8:1:2::/64"},
		{"all addresses belong to proxies", "10.0.0.1:1", "10.0.0.3, 10.0.0.2", proxy, "10.0.0.3/32"},
		{"IPv6 address counts as its prefix", "[2001:db8:1:2:3:4:5:6]:1", "", nil, "2001:db8:1:2::/64"},
		{"IPv6 address with a zone", "[fe80::1%eth0]:1", "", nil, "fe80::/64"},
		{"IPv4-mapped address", "[::ffff:192.0.2.1]:1", "", nil, "192.0.2.1/32"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = tt.remote
			if tt.forwarded != "" {
				r.Header.Set("X-Forwarded-For", tt.forwarded)
			}
			if got := PrefixOf(NewProxies("", tt.trusted, slog.New(slog.DiscardHandler)).Address(r)); got.String() != tt.want {
				t.Errorf("the client address is %s, want %s", got, tt.want)
			}
		})
	}
}

// The operator learns that TRUSTED_PROXIES lacks a proxy, but a client that sends the header cannot fill the log.
func TestIgnoredForwardedAddressIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := NewProxies("", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, slog.New(slog.NewTextHandler(&log, nil)))
	send := func(remote string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-For", "198.51.100.9")
		p.Address(r)
	}
	if send("10.0.0.1:1"); log.Len() > 0 {
		t.Errorf("a trusted proxy is logged: %s", log.String())
	}
	send("192.0.2.1:1")
	send("192.0.2.2:1")
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "TRUSTED_PROXIES") || !strings.Contains(got, "sender=192.0.2.1") {
		t.Errorf("the log is %q, want one warning that names TRUSTED_PROXIES and the sender", got)
	}
}

func TestRequestWithInvalidHostHasNoOrigin(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"", "a:b", "a:99999", "a:80:80", ":80", ":", "..", "[::1", "a,b", "a b", "user@a", "%0d%0a", "a/b",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Host = host
		if got := NewProxies("", nil, slog.New(slog.DiscardHandler)).Origin(r); !got.IsZero() {
			t.Errorf("Host %q: origin %q, want none", host, got)
		}
	}
}

// Proxies keeps the origin of the latest request. Nevertheless, the origin of each request must match the
// scheme and the host of this request.
func TestOriginMatchesSchemeAndHostOfEachRequest(t *testing.T) {
	t.Parallel()
	p := NewProxies("", []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, slog.New(slog.DiscardHandler))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.RemoteAddr = "192.0.2.1:1000"
	for _, test := range []struct{ proto, host, want string }{
		{"http", "a.example", "http://a.example"},
		{"http", "a.example", "http://a.example"},
		{"http", "b.example", "http://b.example"},
		{"https", "b.example", "https://b.example"},
		{"https", "b.example:444", "https://b.example:444"},
		{"https", "not a host", ""},
		{"https", "b.example:444", "https://b.example:444"},
		{"https", "", ""},
		{"http", "a.example", "http://a.example"},
	} {
		r.Host = test.host
		r.Header.Set("X-Forwarded-Proto", test.proto)
		if got := p.Origin(r).String(); got != test.want {
			t.Errorf("the origin of %s://%s is %q, want %q", test.proto, test.host, got, test.want)
		}
	}
}
