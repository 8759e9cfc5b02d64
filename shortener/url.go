package shortener

import (
	"fmt"
	"strings"
	"unicode"
)

// maxURL is the longest URL that is stored, in bytes.
const maxURL = 2048

// normalizeURL gives raw the form in which it is stored and will stand in a Location
// header, or an *InvalidError. self is scheme://host[:port] of this service, which a
// link must not lead back to.
//
// The URL is edited, never taken apart and put together again as net/url would do
// it: whatever a URL may hold (RFC 3986) comes out byte for byte, because to the
// server it leads to two spellings of "the same" URL may be two resources. Only
// what cannot stay is changed: white space around it is cut, a host that is not ASCII
// becomes punycode, and other bytes that a URL may not hold are percent-encoded. The
// result is printable ASCII, and normalizing it again changes nothing.
func normalizeURL(raw, self string) (string, error) {
	s := strings.TrimSpace(raw)
	if strings.ContainsRune(s, '\\') {
		// Browsers take it for a slash, other programs do not: they would disagree about the host.
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
	if leadsTo(scheme, address, self) {
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

// splitURL cuts an http or https URL into the scheme as it was written, the authority
// (what stands between "//" and the path) and all that follows.
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

// isScheme compares without regard to ASCII case, but not as EqualFold would do:
// that one takes the long s of Unicode for an s.
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

// escape percent-encodes each byte of s that may not stand in a URL. It goes by
// bytes, not characters, so that what is not UTF-8 (the é of an old Latin-1 form)
// reaches its server as it was sent.
//
// Brackets after the host and a second # are not in RFC 3986 either, but every browser
// sends them as they are, and pages depend on it: they stay.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		if c := s[i]; mayStand(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func mayStand(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte("\"<>^`{|}", c) < 0
}
