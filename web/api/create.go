package api

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

// sentKey is the name under which the echo.Context holds the shortener.Request of a failed creation.
const sentKey = "sent"

// Sent returns the fields that the client of a failed creation sent, so that an error page can show them again. Fields
// that could not be read are missing. ok is false if the request was refused before its body was read.
func Sent(c echo.Context) (r shortener.Request, ok bool) {
	r, ok = c.Get(sentKey).(shortener.Request)
	return r, ok
}

// create answers POST /shorten.
func (a *API) create(c echo.Context) error {
	self, err := a.proxies.Self(c)
	if err != nil {
		return err
	}
	tok, owned, err := a.admitCreation(c)
	if err != nil {
		a.keepInput(c)
		return err
	}
	r, key, err := a.readCreation(c, owned)
	r.Self, r.Owner = self, tok.ID
	if err != nil {
		c.Set(sentKey, r)
		return err
	}
	link, existing, replayed, err := a.createIdempotent(c, r, key)
	if err != nil {
		c.Set(sentKey, r)
		return a.suggest(c, r, err)
	}
	if replayed {
		c.Response().Header().Set("Idempotency-Replayed", "true")
	}
	status := http.StatusOK
	l := NewLink(link, self)
	if !existing {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, l.ShortURL)
	}
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	switch media.Negotiate(c.Request(), media.JSON, media.Text, media.HTML) {
	case media.Text:
		return reply.Encoded(c.Response(), echo.MIMETextPlainCharsetUTF8, status, []byte(l.ShortURL+"\n"))
	case media.HTML:
		return a.created(c, status, l)
	}
	if owned {
		return a.sendLink(c, status, link, self)
	}
	return a.send(c.Response(), status, l)
}

// keepInput reads the fields of a creation that admitCreation refused, if the client gets the error as a page.
func (a *API) keepInput(c echo.Context) {
	if media.Negotiate(c.Request(), media.JSON, media.Text, media.HTML) != media.HTML {
		return
	}
	// If the body is invalid, the page shows the refusal of the creation and the fields that could be read.
	r, _ := a.readFields(c.Response().Writer, c.Request())
	c.Set(sentKey, r)
}

// admitCreation decides whether the client may create a link, and counts the creation against the limit of
// the token or of the address. owned is false if the creation is anonymous.
func (a *API) admitCreation(c echo.Context) (tok token.Token, owned bool, err error) {
	tok, owned, err = client.Identify(c, a.tokens)
	switch {
	case err != nil:
		return token.Token{}, false, err
	case !owned && a.limits.TokensOnly:
		return token.Token{}, false, problem.Unauthorized("Only clients with a token may create links here. " + client.SendBearer)
	case !owned:
		return token.Token{}, false, a.limits.SpendAnonymous(c)
	}
	if err := client.Permit(tok, token.ScopeCreate); err != nil {
		return token.Token{}, false, err
	}
	return tok, true, a.limits.SpendToken(c, tok)
}

// readCreation reads the body and the idempotency key of a creation. If owned is false, it refuses an idempotency key
// and each field that only a client with a token may send. If readCreation fails, r contains the fields that were
// read before the failure.
func (a *API) readCreation(c echo.Context, owned bool) (r shortener.Request, key string, err error) {
	// After a body that is too long, MaxBytesReader closes the connection. It can do so only through the ResponseWriter
	// of net/http, and not through the echo.Response.
	if r, err = a.readFields(c.Response().Writer, c.Request()); err != nil {
		return r, "", err
	}
	if key, err = idempotencyKey(c.Request()); err != nil || owned {
		return r, key, err
	}
	r.MaxAge = a.limits.AnonymousMaxAge
	reserved := r.Owned()
	if key != "" {
		reserved = "Idempotency-Key"
	}
	if reserved != "" {
		return r, "", problem.Unauthorized("Only clients with a token may send " + reserved + ". " + client.SendBearer)
	}
	return r, "", nil
}

// createIdempotent creates a link. If key is not empty, repetitions with the same key create no further link. The results
// are those of service.Create, or of service.CreateIdempotent if key is not empty. An alias that belongs to another link
// counts as a miss, because a client could otherwise use creations to find out which codes exist.
func (a *API) createIdempotent(c echo.Context, r shortener.Request, key string) (link shortener.Link, existing, replayed bool, err error) {
	address := netip.Prefix{}
	if r.Alias != nil {
		address = client.PrefixOf(c.RealIP())
		if err := a.limits.Misses.Admit(address); err != nil {
			return shortener.Link{}, false, false, err
		}
	}
	ctx := c.Request().Context()
	if key == "" {
		link, existing, err = a.service.Create(ctx, r)
	} else {
		link, existing, replayed, err = a.service.CreateIdempotent(ctx, r, key)
	}
	if errors.Is(err, shortener.ErrAliasTaken) {
		a.limits.Misses.Count(address)
	}
	return link, existing, replayed, err
}
