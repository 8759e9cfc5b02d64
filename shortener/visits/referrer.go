package visits

import "strings"

// maxHost is the length of the longest host name (RFC 1035 section 2.3.4).
const maxHost = 253

// referrerHost returns the host of a Referer header in lower case, or "" if the header has no host name. An IP address is not a
// host name. referrerHost discards the rest of the header, which may contain private data.
func referrerHost(referrer string) string {
	scheme, rest, ok := strings.Cut(referrer, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	host, _, _ := strings.Cut(rest, ":")
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHost || !isHost(host) || endsInNumber(host) {
		return ""
	}
	return strings.ToLower(host)
}

// isHost reports whether s contains only the characters of host names. It rejects IPv6 addresses.
func isHost(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return s != ""
}

// endsInNumber reports whether the last label of a host consists of digits. A URL parser reads such a host as an IPv4 address
// (https://url.spec.whatwg.org/#ends-in-a-number-checker).
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return strings.Trim(last, "0123456789") == ""
}

// countryCode returns the country code s in capital letters, or "" if s is not two letters. It also returns
// "" for XX, which some proxies send for an unknown country.
func countryCode(s string) string {
	if len(s) != 2 || !isLetter(s[0]) || !isLetter(s[1]) || strings.EqualFold(s, "XX") {
		return ""
	}
	return strings.ToUpper(s)
}

func isLetter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }
