package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/parameters"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

// manager returns the sender of a request that manages links. It fails if the request has no token, or if the
// token has none of the scopes.
func (a *API) manager(c echo.Context, scopes ...token.Scopes) (service.Actor, error) {
	tok, ok, err := client.Identify(c, a.tokens)
	if err != nil {
		return service.Actor{}, err
	}
	if !ok {
		return service.Actor{}, problem.Unauthorized("Only clients with a token may manage links. " + client.SendBearer)
	}
	for _, scope := range scopes {
		if err = client.Permit(tok, scope); err == nil {
			break
		}
	}
	return service.Actor{Token: tok.ID, Admin: tok.Scopes.Has(token.ScopeAdmin)}, err
}

// link answers requests for /api/links/{code}.
func (a *API) link(c echo.Context) error {
	switch c.Request().Method {
	case http.MethodPatch:
		return a.changeLink(c)
	case http.MethodDelete:
		return a.deleteLink(c)
	}
	return a.findLink(c)
}

// links answers requests for /api/links.
func (a *API) links(c echo.Context) error {
	if c.Request().Method == http.MethodPost {
		return a.createLinks(c)
	}
	return a.listLinks(c)
}

// findLink answers GET and HEAD of /api/links/{code}.
func (a *API) findLink(c echo.Context) error {
	actor, err := a.manager(c, token.ScopeEdit, token.ScopeRead)
	if err != nil {
		return err
	}
	self, err := a.proxies.Self(c)
	if err != nil {
		return err
	}
	link, err := a.service.Find(c.Request().Context(), actor, parameters.Code(c))
	if err != nil {
		return err
	}
	return a.sendLink(c, http.StatusOK, link, self)
}

// sendLink sends a link with all members, including the members that only the owner of the link
// and an admin may see.
func (a *API) sendLink(c echo.Context, status int, link shortener.Link, self destination.Origin) error {
	h := c.Response().Header()
	h.Set("ETag", etag(&link))
	h.Set(echo.HeaderCacheControl, "no-store")
	return a.send(c.Response(), status, a.ownedLink(link, self))
}

// etag returns the entity tag of a link: its version in quotes.
func etag(l *shortener.Link) string { return strconv.Quote(strconv.FormatInt(l.Version(), 10)) }

// changeLink answers PATCH of /api/links/{code}.
func (a *API) changeLink(c echo.Context) error {
	actor, err := a.manager(c, token.ScopeEdit)
	if err != nil {
		return err
	}
	self, err := a.proxies.Self(c)
	if err != nil {
		return err
	}
	patch, err := readPatch(c.Response().Writer, c.Request())
	if err != nil {
		return err
	}
	patch.Self = self
	if patch.Versions, err = ifMatch(c.Request()); err != nil {
		return err
	}
	link, err := a.service.Change(c.Request().Context(), actor, parameters.Code(c), patch)
	if err != nil {
		return err
	}
	return a.sendLink(c, http.StatusOK, link, self)
}

// deleteLink answers DELETE of /api/links/{code}.
func (a *API) deleteLink(c echo.Context) error {
	actor, err := a.manager(c, token.ScopeEdit)
	if err != nil {
		return err
	}
	versions, err := ifMatch(c.Request())
	if err != nil {
		return err
	}
	if err := a.service.Delete(c.Request().Context(), actor, parameters.Code(c), versions); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// noVersion is a version that no link has.
const noVersion = 0

// ifMatch returns the versions that the If-Match header names (RFC 9110 section 13.1.1), or nil if every
// version matches. An entity tag that this service does not issue becomes noVersion.
func ifMatch(r *http.Request) (versions []int64, err error) {
	fields := r.Header.Values("If-Match")
	if len(fields) == 0 {
		return nil, nil
	}
	list := strings.Join(fields, ",") // RFC 9110 section 5.3
	if strings.Trim(list, " \t") == "*" {
		return nil, nil
	}
	for {
		list = strings.TrimLeft(list, ", \t") // the elements of a list may be empty
		if list == "" && versions != nil {
			return versions, nil
		}
		version, rest, ok := cutTag(list)
		rest = strings.TrimLeft(rest, " \t")
		if !ok || rest != "" && rest[0] != ',' {
			return nil, problem.Malformed(`The If-Match header must be *, or entity tags such as "3", separated by commas.`)
		}
		versions, list = append(versions, version), rest
	}
}

// cutTag reads the entity tag with which a list begins (RFC 9110 section 8.8.3). It returns the version that the tag
// names, or noVersion, and the rest of the list. ok is false if the list does not begin with an entity tag.
func cutTag(list string) (version int64, rest string, ok bool) {
	list, weak := strings.CutPrefix(list, "W/")
	list, opened := strings.CutPrefix(list, `"`)
	text, rest, closed := strings.Cut(list, `"`)
	if !opened || !closed || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return noVersion, "", false
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if weak || err != nil || version < 1 || strconv.FormatInt(version, 10) != text {
		version = noVersion
	}
	return version, rest, true
}

// listLinks answers GET and HEAD of /api/links. With the Accept header, the client chooses either a page of links as JSON
// or all links as a stream.
func (a *API) listLinks(c echo.Context) error {
	actor, err := a.manager(c, token.ScopeEdit, token.ScopeRead)
	if err != nil {
		return err
	}
	self, err := a.proxies.Self(c)
	if err != nil {
		return err
	}
	query, err := readListQuery(c.Request())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	if stream := media.Negotiate(c.Request(), media.JSON, media.NDJSON, media.CSV); stream != media.JSON {
		return a.streamLinks(c, actor, query, self, stream)
	}
	end, err := a.service.BeginAnswer(c.Request().Context(), actor)
	if err != nil {
		return err
	}
	defer end()
	links, next, err := a.service.List(c.Request().Context(), actor, query.filter, query.cursor, query.limit)
	if errors.Is(err, shortener.ErrPosition) {
		return problem.Malformed("The parameter cursor is not a cursor that this service returned.")
	}
	if err != nil {
		return err
	}
	page := listPage{Links: make([]*ownedLink, len(links)), Next: next}
	for i, l := range links {
		page.Links[i] = a.ownedLink(l, self)
	}
	return reply.JSON(c.Response(), media.JSON, http.StatusOK, page)
}

// listPage is a page of links as JSON.
type listPage struct {
	Links []*ownedLink `json:"links"`
	Next  string       `json:"next,omitempty"` // cursor of the next page
}
