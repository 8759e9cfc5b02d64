package destination

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxURL is the maximum length of a stored URL, in bytes.
const maxURL = 2048

// normalize returns raw in the form that links store and that the Location header contains, or an *InvalidError. A
// URL that leads to self is invalid.
//
// Bytes that a URL may contain (RFC 3986) stay as they are, because two spellings of a URL may name different
// resources on the server. So normalize does not parse and rebuild the URL as net/url does. It makes only three
// changes. It removes white space around the URL, converts a host that is not ASCII to punycode, and
// percent-encodes bytes that a URL must not contain. The result is printable ASCII. A second call of normalize
// does not change it.
func normalize(raw string, self Origin) (string, error) {
	s := strings.TrimSpace(raw)
	if strings.ContainsRune(s, '\\') {
		// Browsers treat a backslash as a slash, and other programs do not. So a browser and
		// another program would find different hosts in this URL.
		return "", invalidURL(`must not contain a backslash; write %5C for a backslash`)
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
		return "", errLeadsBack()
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

// Normal returns a URL in the form in which links store it. If the URL is invalid, ok is false.
func Normal(raw string) (normal string, ok bool) {
	normal, err := normalize(raw, Origin{})
	return normal, err == nil
}

func invalidURL(reason string) error {
	return &InvalidError{reason}
}

func errLeadsBack() error { return invalidURL("must not lead back to this service") }

// splitURL splits an http or https URL into the scheme, the authority (the part between "//" and the path) and the
// rest. It does not change the case of letters.
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

// isScheme reports whether s and want are equal apart from the case of ASCII letters. For EqualFold, some ASCII letters
// also equal letters outside ASCII: for example, the letter "s" equals U+017F, the long s. A letter outside ASCII has
// more than one byte in UTF-8, so the comparison of the lengths excludes such letters.
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
// and not on characters, so that text that is not UTF-8 (such as é in Latin-1) reaches the
// server unchanged.
//
// RFC 3986 also forbids brackets after the host, and a second #. But escape does not encode these characters,
// because every browser sends them unencoded and servers depend on this.
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

// The maximum lengths of a host name and of a label, RFC 1035, section 2.3.4.
const (
	maxHost  = 253
	maxLabel = 63
)

// address contains the host and the port of a URL in the form in which links store them.
type address struct {
	host string // ASCII; an IPv6 address is in brackets
	port string // with its colon; "" if there is no port, ":" if the port is empty
}

// parseAddress validates the authority of a URL and converts its host to ASCII.
func parseAddress(authority string) (address, error) {
	if strings.ContainsRune(authority, '@') {
		// Such a URL shows one host to the reader and leads to another host.
		return address{}, invalidURL("must not contain user information (user@ or user:password@)")
	}
	host, port := cutPort(authority)
	if !validPort(port) {
		return address{}, invalidURL("must have either no port or a port from 1 to 65535")
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

// asciiHost validates a host name or IPv4 address. It returns an ASCII host unchanged. Any other host is converted
// to punycode by the look-up rules of UTS #46 (RFC 5891).
func asciiHost(host string) (string, error) {
	if host == "" {
		return "", invalidURL("must have a host, as in https://example.com/page")
	}
	if !isASCII(host) {
		// Reject a long host before its conversion, because the time of the conversion grows with the square of
		// the length of a label. Every valid host in the normal form of UTS #46 is short enough: a label of n
		// characters in this form has at least n characters in punycode. Another spelling of a valid host can be
		// too long, for example if each accent is a separate combining character.
		if utf8.RuneCountInString(host) > maxHost {
			return "", invalidURL(fmt.Sprintf("must have a host of at most %d characters, including combining and invisible characters", maxHost))
		}
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || !utf8.ValidString(host) { // idna treats invalid UTF-8 as U+FFFD
			return "", invalidURL("must have a host that is a valid internationalized domain name")
		}
		host = ascii
	}
	if !validHost(host) {
		return "", invalidURL("must have a host made of letters, digits, - and _, its parts separated by single dots")
	}
	if h := hostOf(host); endsInNumber(h.name) {
		return "", invalidURL("must have a valid IPv4 address as its host, because the last part of the host is a number")
	}
	return host, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// validHost reports whether an ASCII name may exist in DNS. It accepts one dot at the end. It also accepts
// underscores, because they are common, although RFC 1123 does not allow them in host names.
func validHost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > maxLabel || !IsWord(label) {
			return false
		}
	}
	return true
}

// number returns the port number of the address. If the address has no port, it returns the default port of the
// scheme.
func (a address) number(scheme string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(a.port, ":"), 10, 16)
	if err != nil { // there is no port, because parseAddress rejects an invalid port
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

// IsWord reports whether s contains only ASCII letters, digits, - and _. Codes and labels of host names consist of
// these characters. IsWord could test strings.Trim(s, characters) == "", but Trim would build a table for
// each call.
func IsWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
