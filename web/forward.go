package web

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/internal/parameters"
)

// codePath answers GET and HEAD of /{code}/{rest}. Only a link that forwards paths has such URLs.
func (p *public) codePath(c echo.Context) error {
	c.SetPath(routeCode)
	link, err := p.resolve(c, parameters.Code(c))
	if err == nil && link.Forward() != shortener.ForwardQueryAndPath {
		return p.redirect(c, link, shortener.ErrNotFound) // the code is known, so there is no redirect to the page for unknown codes
	}
	return p.missed(c, p.redirect(c, link, err))
}

// forward returns the URL to which the request is redirected. This is the URL of the link, extended by the parts of the
// request that the link forwards: the query, or the query and the path after the code. forward appends the bytes as the
// client sent them, because the server at the destination may distinguish between a character and its percent-encoding.
// It encodes only the bytes that cannot be in a Location header; see encoded.
func forward(l *shortener.Link, r *http.Request) string {
	f := l.Forward()
	if f == shortener.ForwardNone {
		return l.URL
	}
	url, fragment, hasFragment := strings.Cut(l.URL, "#")
	url, query, hasQuery := strings.Cut(url, "?")
	if f == shortener.ForwardQueryAndPath {
		if rest, ok := restOfPath(r); ok {
			url = strings.TrimSuffix(url, "/") + encoded(rest)
		}
	}
	switch given := encoded(r.URL.RawQuery); {
	case given == "":
	case !hasQuery, query == "":
		query, hasQuery = given, true
	default:
		query += "&" + given
	}
	if hasQuery {
		url += "?" + query
	}
	if hasFragment {
		url += "#" + fragment
	}
	return url
}

// restOfPath returns what follows the code in the path of a request, as the client sent it. The rest begins with a
// slash. ok is false if nothing follows the code. restOfPath reads RequestURI, because URL.EscapedPath decodes and
// encodes the whole path if the path contains a byte that is not allowed in a URL.
func restOfPath(r *http.Request) (rest string, ok bool) {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") { // the client sent an absolute URL, as clients of a proxy do
		path = r.URL.EscapedPath()
	}
	at := strings.IndexByte(path[1:], '/')
	if at < 0 {
		return "", false
	}
	return path[1+at:], true
}

// encoded percent-encodes the bytes that cannot be in a path or a query of a Location header: "#", which would begin
// the fragment, and each byte that is not a visible ASCII character. All other bytes stay as they are.
func encoded(part string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	kept := 0
	for i := range len(part) {
		if c := part[i]; c <= ' ' || c >= 0x7f || c == '#' {
			b.WriteString(part[kept:i])
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
			kept = i + 1
		}
	}
	return b.String() + part[kept:]
}
