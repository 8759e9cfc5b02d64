package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/api"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// DefaultRedirectAge is the default of PublicConfig.RedirectAge.
const DefaultRedirectAge = 90 * time.Second

// code answers GET and HEAD of /{code}, of its preview /{code}+ and of its QR codes. It reads the decoded path because a
// percent-encoded letter is equivalent to the letter itself (RFC 3986 section 6.2.2.2).
func (p *public) code(c echo.Context) error {
	code, preview := strings.CutSuffix(c.Request().URL.Path[1:], "+")
	var err error
	switch qrCode, suffix := cutQR(code); {
	case preview:
		c.SetPath(routePreview)
		err = p.preview(c, code)
	case suffix != "":
		c.SetPath(routeCode + suffix)
		err = p.qr(c, qrCode, suffix)
	default:
		err = p.follow(c, code)
	}
	return p.missed(c, err)
}

// missed handles err, the error of the request. If err says that the code is unknown, and the operator has a page for unknown
// codes, missed redirects a browser to this page. Otherwise it returns err.
func (p *public) missed(c echo.Context, err error) error {
	if errors.Is(err, shortener.ErrNotFound) && refers(c, p.missURL) {
		return refer(c, p.missURL)
	}
	return err
}

// follow redirects to the URL of the link. The Location header contains the URL as stored, byte for byte, and the parts
// of the request that the link forwards.
func (p *public) follow(c echo.Context, code string) error {
	link, err := p.resolve(c, code)
	return p.redirect(c, link, err)
}

// redirect answers with a redirect to the URL of the link. err is the error of the look-up. If err is not nil, redirect
// returns err. redirect counts only GET requests. It counts them in the metrics (see Metrics.visited), and as visits if
// they get a redirect.
func (p *public) redirect(c echo.Context, link shortener.Link, err error) error {
	if c.Request().Method == http.MethodGet {
		p.metrics.visited(err)
	}
	if err != nil {
		return err
	}
	if c.Request().Method == http.MethodGet {
		p.count(c, &link)
	}
	// Header.Set allocates a slice for each value. An assignment can store a slice that redirects share;
	// see redirectAge.
	h := c.Response().Header()
	h[echo.HeaderLocation] = []string{forward(&link, c.Request())}
	h[echo.HeaderCacheControl] = p.age.cacheControl(&link)
	return c.NoContent(link.Redirect())
}

// preview shows the URL of the link and does not redirect.
func (p *public) preview(c echo.Context, code string) error {
	self, err := p.proxies.Self(c)
	if err != nil {
		return err
	}
	link, err := p.resolve(c, code)
	if err != nil {
		return err
	}
	a := newPreview(link, self)
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	if media.WantsPage(c.Request()) {
		return p.pages.preview(c, a)
	}
	return reply.JSON(c.Response(), media.JSON, http.StatusOK, a)
}

// preview is the JSON representation of a link for everyone. It shows whether the link is editable, that is, whether
// the link may lead elsewhere later. Only the owner sees when a member other than the URL was changed.
type preview struct {
	api.Link
	ChangedAt time.Time `json:"changed_at,omitzero"` // time of the last change of the URL
}

func newPreview(l shortener.Link, self destination.Origin) *preview {
	v := &preview{Link: *api.NewLink(l, self)}
	if l.Editable() {
		v.ChangedAt = l.URLChangedAt()
	}
	return v
}

// resolve looks up a code. If the code is unknown, resolve counts a miss against the address of the client.
func (p *public) resolve(c echo.Context, code string) (shortener.Link, error) {
	address := client.PrefixOf(c.RealIP())
	if err := p.limits.Misses.Admit(address); err != nil {
		return shortener.Link{}, err
	}
	link, err := p.service.Resolve(c.Request().Context(), code)
	if errors.Is(err, shortener.ErrNotFound) {
		p.limits.Misses.Count(address)
	}
	return link, err
}

// redirectAge is the longest time for which a browser may cache a redirect. A long time saves requests. But after the
// deletion of a link, a browser with the redirect in its cache may follow the link until this time is over.
type redirectAge struct {
	longest time.Duration
	// full is the Cache-Control header of most redirects. The redirects can share this slice
	// because net/http only reads it.
	full []string
}

func newRedirectAge(longest time.Duration) redirectAge {
	return redirectAge{longest, privateAge(longest)}
}

func privateAge(age time.Duration) []string {
	return []string{"private, max-age=" + strconv.Itoa(max(0, int(age.Seconds())))}
}

// cacheControl allows caching for the longest time, but not past the expiry of the link.
func (a *redirectAge) cacheControl(l *shortener.Link) []string {
	if l.ExpiresAt.IsZero() {
		return a.full
	}
	left := time.Until(l.ExpiresAt)
	if left >= a.longest {
		return a.full
	}
	return privateAge(left)
}
