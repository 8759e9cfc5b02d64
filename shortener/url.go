package shortener

import (
	"fmt"
	"strings"
	"unicode"
)

// maxURL is the longest URL that is stored, in bytes.
const maxURL = 2048

// normalizeURL returns raw in the form that is stored and sent in a Location header, or
// an *InvalidError. A URL that leads to self is invalid.
//
// The URL is edited, never parsed and rebuilt as net/url would do: everything that a URL
// may contain (RFC 3986) stays byte for byte, because two spellings of "the same" URL may
// be two resources to the server. Three things change: white space around the URL is cut,
// a host that is not ASCII becomes punycode, and bytes that a URL must not contain are
// percent-encoded. The result is printable ASCII, and normalizing it again changes nothing.
func normalizeURL(raw string, self Origin) (string, error) {
	s := strings.TrimSpace(raw)
	if strings.ContainsRune(s, '\\') {
		// Browsers read a backslash as a slash, other programs do not: they would see different hosts.
		return "", invalidURL(`must not contain a backslash; write %5C for one`)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", invalidURL("must not contain control characters such as line breaks")
	}
	scheme, authority, rest, ok := splitURL(s)
	if !ok {
		return "", invalidURL("must be an absolute http or https URL, such as https://example.com/page")
	}
	address, err := parseAddress(authority)
	if err != nil {
		return "", err
	}
	if self.serves(scheme, address) {
		return "", invalidURL("must not lead back to this service")
	}
	if !wellEscaped(rest) {
		return "", invalidURL("must have two hexadecimal digits after every percent sign; write %25 for a percent sign itself")
	}
	stored := scheme + "://" + address.host + address.port + escape(rest)
	if len(stored) > maxURL {
		return "", invalidURL(fmt.Sprintf("must be at most %d bytes long in its encoded form, and has %d", maxURL, len(stored)))
	}
	return stored, nil
}

func invalidURL(reason string) error {
	return &InvalidError{Field: "url", Reason: reason}
}

// splitURL splits an http or https URL into the scheme as it is written, the authority
// (the part between "//" and the path) and the rest.
func splitURL(s string) (scheme, authority, rest string, ok bool) {
	scheme, s, ok = strings.Cut(s, "://")
	if !ok || !isScheme(scheme, "http") && !isScheme(scheme, "https") {
		return "", "", "", false
	}
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		return scheme, s[:i], s[i:], true
	}
	return scheme, s, "", true
}

// isScheme compares without regard to ASCII case. The length check excludes letters
// beyond ASCII that EqualFold considers equal, such as U+017F (long s) and s.
func isScheme(s, want string) bool {
	return len(s) == len(want) && strings.EqualFold(s, want)
}

// wellEscaped reports whether two hexadecimal digits follow each percent sign.
func wellEscaped(s string) bool {
	for {
		_, after, found := strings.Cut(s, "%")
		if !found {
			return true
		}
		if len(after) < 2 || !isHex(after[0]) || !isHex(after[1]) {
			return false
		}
		s = after
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// escape percent-encodes each byte of s that must not occur in a URL. It works on bytes
// and not on characters, so that text that is not UTF-8 (é in a Latin-1 form) reaches its
// server unchanged.
//
// Brackets after the host and a second # are not in RFC 3986 either. They stay, because
// every browser sends them unencoded and servers depend on it.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		if c := s[i]; isURLByte(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func isURLByte(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte("\"<>^`{|}", c) < 0
}
