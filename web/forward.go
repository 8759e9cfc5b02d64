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
		err = shortener.ErrNotFound
	}
	return p.missed(c, p.redirect(c, link, err))
}

// forward returns the URL to which the request is redirected: the URL of the link, and what of the request the link
// forwards. It appends the bytes as the client sent them. It does not decode them, because servers may distinguish
// between two spellings.
func forward(l *shortener.Link, r *http.Request) string {
	f := l.Forward()
	if f == shortener.ForwardNone {
		return l.URL
	}
	url, fragment, hasFragment := strings.Cut(l.URL, "#")
	url, query, hasQuery := strings.Cut(url, "?")
	if f == shortener.ForwardQueryAndPath {
		if rest, ok := restOfPath(r); ok {
			url = strings.TrimSuffix(url, "/") + rest
		}
	}
	switch given := r.URL.RawQuery; {
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

// restOfPath returns what follows the code in the path of a request, as the client sent it. It begins with a slash.
func restOfPath(r *http.Request) (rest string, ok bool) {
	path := r.URL.EscapedPath()
	at := strings.IndexByte(path[1:], '/')
	if at < 0 {
		return "", false
	}
	return path[1+at:], true
}
