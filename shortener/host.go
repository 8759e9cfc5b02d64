package shortener

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The bounds of a host name, RFC 1035, section 2.3.4.
const (
	maxHost  = 253
	maxLabel = 63
)

// address is the host and port of a URL, in the spelling in which they are stored.
type address struct {
	host string // ASCII; an IPv6 address is in brackets
	port string // with its colon; "" where none was written, ":" where an empty one was
}

// parseAddress checks the authority of a URL and turns its host into ASCII.
func parseAddress(authority string) (address, error) {
	if strings.ContainsRune(authority, '@') {
		// It would show one host to the reader and lead to another.
		return address{}, invalidURL("must not contain user information (user@ or user:password@)")
	}
	host, port := cutPort(authority)
	if !validPort(port) {
		return address{}, invalidURL("must have a port from 1 to 65535, or none")
	}
	if strings.HasPrefix(host, "[") {
		if !validIPv6(host) {
			return address{}, invalidURL("must have an IPv6 address without a zone between the brackets")
		}
		return address{host, port}, nil
	}
	host, err := asciiHost(host)
	if err != nil {
		return address{}, err
	}
	return address{host, port}, nil
}

// ASCIIAuthority gives authority, host[:port] as in a Host header, with the host in ASCII.
// It is not ok when a link could not lead there.
func ASCIIAuthority(authority string) (ascii string, ok bool) {
	a, err := parseAddress(authority)
	return a.host + a.port, err == nil
}

// cutPort cuts an authority after its host; the port keeps its colon.
func cutPort(authority string) (host, port string) {
	from := strings.IndexByte(authority, ']') + 1 // the colons of an IPv6 address are not the port's
	end := strings.IndexByte(authority[from:], ':')
	if end < 0 {
		return authority, ""
	}
	return authority[:from+end], authority[from+end:]
}

func validPort(port string) bool {
	if port == "" || port == ":" {
		return true
	}
	n, err := strconv.ParseUint(port[1:], 10, 16)
	return err == nil && n > 0
}

func validIPv6(host string) bool {
	inside, closed := strings.CutSuffix(host[1:], "]")
	ip, err := netip.ParseAddr(inside)
	return closed && err == nil && ip.Is6() && ip.Zone() == ""
}

// asciiHost checks a host name or IPv4 address. What is ASCII stays byte for byte;
// anything else becomes punycode as UTS #46 says for look-ups (RFC 5891).
func asciiHost(host string) (string, error) {
	if host == "" {
		return "", invalidURL("must have a host, as in https://example.com/page")
	}
	if !isASCII(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || !utf8.ValidString(host) { // idna takes a broken character for U+FFFD
			return "", invalidURL("must have a host that is a valid internationalized domain name")
		}
		host = ascii
	}
	if !validHost(host) {
		return "", invalidURL("must have a host made of letters, digits, - and _, its parts separated by single dots")
	}
	return host, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// validHost reports whether DNS could know an ASCII name. One dot at the end is
// fine, and so is the underscore, which is not for hosts but found in many.
func validHost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > maxLabel || !isWord(label) {
			return false
		}
	}
	return true
}

// leadsTo reports whether a URL with this scheme and address is answered by self,
// which is scheme://host[:port]. A self that cannot be read is nobody.
func leadsTo(scheme string, a address, self string) bool {
	selfScheme, authority, _, ok := splitURL(self)
	if !ok {
		return false
	}
	b, err := parseAddress(authority)
	if err != nil || a.canonicalHost() != b.canonicalHost() {
		return false
	}
	port, selfPort := a.number(scheme), b.number(selfScheme)
	// A service on https usually owns plain http as well, if only to redirect it.
	bothDefault := port == defaultPort(scheme) && selfPort == defaultPort(selfScheme)
	return port == selfPort || bothDefault
}

// canonicalHost is the one spelling of all that name the same host.
func (a address) canonicalHost() string {
	name := strings.ToLower(strings.TrimSuffix(a.host, "."))
	if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return ip.Unmap().String()
	}
	return name
}

// number is the port that the address means under scheme.
func (a address) number(scheme string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(a.port, ":"), 10, 16)
	if err != nil { // there is none: parseAddress let no bad one pass
		return defaultPort(scheme)
	}
	return n
}

func defaultPort(scheme string) uint64 {
	if isScheme(scheme, "https") {
		return 443
	}
	return 80
}
