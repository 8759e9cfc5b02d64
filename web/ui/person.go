package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/token"
)

// person is the sender of a request.
type person struct {
	token    token.Token
	operator bool // whether the person uses the admin listener, and has no token
	signedIn bool // whether the person has a session, and can sign out
}

// Name returns the name of the person's token, or "" for the operator.
func (p person) Name() string { return p.token.Name }

// SignedIn reports whether the person can sign out.
func (p person) SignedIn() bool { return p.signedIn }

// MayCreate reports whether the person may create links.
func (p person) MayCreate() bool { return p.has(token.ScopeCreate) }

// MayEdit reports whether the person may change and delete links.
func (p person) MayEdit() bool { return p.has(token.ScopeEdit) }

// SeesAll reports whether the person sees the links of all owners.
func (p person) SeesAll() bool { return p.has(token.ScopeAdmin) }

// maySee returns an error unless the person may see links. The scope edit includes the permission to see links, as in the
// API.
func (p person) maySee() error {
	if p.has(token.ScopeRead) || p.has(token.ScopeEdit) {
		return nil
	}
	return lacks(p, token.ScopeRead)
}

func (p person) has(scope token.Scopes) bool { return p.operator || p.token.Scopes.Has(scope) }

func (p person) actor() service.Actor {
	return service.Actor{Token: p.token.ID, Admin: p.SeesAll()}
}

// Entrance determines the person who sends a request.
type Entrance interface {
	// enter returns the person. If the entrance is a [Session] and the request has no valid session, enter fails with
	// errNoSession.
	enter(r *http.Request) (person, error)
}

// Operator is the entrance of the admin listener, where each client is the operator.
type Operator struct{}

//nolint:unparam // an Entrance returns an error
func (Operator) enter(*http.Request) (person, error) { return person{operator: true}, nil }

// Proxy is the entrance for a listener behind a reverse proxy that authenticates people. A person acts as the
// token whose name is the name of the person.
type Proxy struct {
	Header  string                   // contains the name of the person
	Trusted func(*http.Request) bool // reports whether the connection comes from the proxy
	Named   func(ctx context.Context, name string) (token.Token, error)
}

func (p Proxy) enter(r *http.Request) (person, error) {
	if !p.Trusted(r) {
		return person{}, &pageError{http.StatusForbidden, "Use the proxy", "Only the proxy that authenticates people may open this page."}
	}
	names := r.Header.Values(p.Header)
	if len(names) != 1 || names[0] == "" {
		return person{}, &pageError{http.StatusForbidden, "You are not signed in",
			fmt.Sprintf("The proxy must send exactly one header %s, and this header must contain your name.", p.Header)}
	}
	t, err := p.Named(r.Context(), names[0])
	switch {
	case err == nil:
		return person{token: t}, nil
	case errors.Is(err, token.ErrExpired): // a new token would not have the links of the expired token
		return person{}, &pageError{http.StatusForbidden, "Your token has expired", fmt.Sprintf(
			"The token with the name %q has expired. The operator of this service renews it with shortener token renew. The token keeps its links.",
			names[0])}
	case unknown(err):
		return person{}, &pageError{http.StatusForbidden, "You have no token", fmt.Sprintf(
			"No valid token has the name %q. The operator of this service can create such a token with: shortener token create --name=%s --scope=create,read,edit",
			names[0], quoted(names[0]))}
	}
	return person{}, unavailable(err)
}

// Session is the entrance for people who sign in with a token. The session is a cookie that contains the bearer, so
// each request is checked like a request of the API. The revocation of the token ends the session on every server.
// Servers share sessions without a common secret.
type Session struct {
	Authenticate func(ctx context.Context, bearer string) (token.Token, error)
	Secure       func(*http.Request) bool // reports whether the browser uses HTTPS
}

// sessionSeconds is the life of a session: 12 hours.
const sessionSeconds = 12 * 60 * 60

func (s Session) enter(r *http.Request) (person, error) {
	c, err := r.Cookie(s.cookieName(r))
	if err != nil {
		return person{}, errNoSession
	}
	t, err := s.Authenticate(r.Context(), c.Value)
	if unknown(err) {
		return person{}, errNoSession
	}
	return person{token: t, signedIn: true}, unavailable(err)
}

// cookieName returns the name of the cookie. Browsers accept the prefix __Host- only over HTTPS. A subdomain, or a site on
// HTTP, cannot set a cookie with this prefix.
func (s Session) cookieName(r *http.Request) string {
	if s.Secure(r) {
		return "__Host-keypool"
	}
	return "keypool"
}

// cookie returns the cookie of a session. With the prefix __Host-, its path must be "/".
func (s Session) cookie(r *http.Request, base, bearer string) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // without HTTPS, browsers would refuse a cookie that is Secure
		Name: s.cookieName(r), Value: bearer, Path: base + "/", MaxAge: sessionSeconds,
		Secure: s.Secure(r), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if c.Secure {
		c.Path = "/"
	}
	return c
}

// unknown reports whether err says that a token is not valid.
func unknown(err error) bool {
	return errors.Is(err, token.ErrUnknown) || errors.Is(err, token.ErrRevoked) || errors.Is(err, token.ErrExpired)
}

// unavailable returns err as an error for which the client gets a 503. It returns nil if err is nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &shortener.UnavailableError{RetryAfter: token.Freshness, Err: err}
}

// maxReturn is the maximum length of a path to which a browser returns after the sign-in, in bytes. The answers repeat
// and percent-encode the path, so without a maximum they could be several times as long as the request. The path of the
// page for a new link must fit. Its parameter url has up to 2,048 bytes, or 3 x 2,048 = 6,144 bytes if each byte is
// percent-encoded.
const maxReturn = 8 << 10

// local cleans and returns the parameter text if it is a path below base, with or without a query. Otherwise it returns
// the path of the list. Therefore a redirect to the result cannot lead to another site:
//
//   - local does not accept a text that begins with "//host" or contains "\", because a browser treats "//host" as another
//     site, and "\" as "/".
//   - It removes the segments "." and "..", even if they are percent-encoded. Otherwise a browser would remove them, and
//     the result could be outside base.
//   - It does not accept a fragment, because http.Redirect would treat the fragment as a part of the path.
//
// local does not accept a text of more than maxReturn bytes.
func local(text, base string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxReturn || u.IsAbs() || u.Host != "" || u.User != nil || strings.ContainsAny(text, "#\\\r\n\t") || strings.Contains(u.Path, `\`) {
		return base + "/"
	}
	clean := path.Clean(u.Path)
	if strings.HasSuffix(u.Path, "/") {
		clean += "/"
	}
	if !strings.HasPrefix(clean, base+"/") {
		return base + "/"
	}
	return (&url.URL{Path: clean, RawQuery: u.RawQuery}).String()
}

// quoted returns a text as one word for a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
