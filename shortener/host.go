package shortener

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The maximum lengths of a host name and of a label, RFC 1035, section 2.3.4.
const (
	maxHost  = 253
	maxLabel = 63
)

// address is the host and port of a URL, in the form that is stored.
type address struct {
	host string // ASCII; an IPv6 address is in brackets
	port string // with its colon; "" for no port, ":" for an empty one
}

// parseAddress validates the authority of a URL and converts its host to ASCII.
func parseAddress(authority string) (address, error) {
	if strings.ContainsRune(authority, '@') {
		// Such a URL shows one host to the reader and leads to another.
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

// cutPort splits an authority after its host. The port keeps its colon.
func cutPort(authority string) (host, port string) {
	from := strings.IndexByte(authority, ']') + 1 // the colons of an IPv6 address do not begin a port
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

// asciiHost validates a host name or IPv4 address. An ASCII host stays byte for byte; any
// other becomes punycode by the look-up rules of UTS #46 (RFC 5891).
func asciiHost(host string) (string, error) {
	if host == "" {
		return "", invalidURL("must have a host, as in https://example.com/page")
	}
	if !isASCII(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || !utf8.ValidString(host) { // idna reads invalid UTF-8 as U+FFFD
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

// validHost reports whether an ASCII name may exist in DNS. It accepts one dot at the
// end, and underscores, which are not part of a host name by RFC 1123 but common.
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

// canonicalHost returns one spelling for all spellings of the same host.
func (a address) canonicalHost() string {
	name := strings.ToLower(strings.TrimSuffix(a.host, "."))
	if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return ip.Unmap().String()
	}
	return name
}

// number returns the port that the address means under scheme.
func (a address) number(scheme string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(a.port, ":"), 10, 16)
	if err != nil { // there is no port: parseAddress rejects an invalid one
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
