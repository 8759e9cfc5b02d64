package web

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
	"keypool/web/internal/reply"

	"github.com/labstack/echo/v4"
	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// redirectAge limits how long a browser caches a redirect. It saves repeated
// requests, and a browser follows a deleted link for at most this long.
const redirectAge = 90 * time.Second

// code answers GET and HEAD of /{code} and /{code}+. It reads the decoded path: a
// percent-encoded letter is the same letter (RFC 3986 section 6.2.2.2).
func (p *public) code(c echo.Context) error {
	code, preview := strings.CutSuffix(c.Request().URL.Path[1:], "+")
	if preview {
		c.SetPath(routePreview)
		return p.preview(c, code)
	}
	return p.follow(c, code)
}

// follow redirects to the URL of the link, byte for byte as stored.
func (p *public) follow(c echo.Context, code string) error {
	link, err := p.resolve(c, code)
	if c.Request().Method == http.MethodGet {
		p.metrics.visited(err)
	}
	if err != nil {
		return err
	}
	// Assignments instead of Set, which would allocate a slice for a constant value.
	h := c.Response().Header()
	h[echo.HeaderLocation] = []string{link.URL}
	h[echo.HeaderCacheControl] = cacheControl(&link)
	return c.NoContent(http.StatusFound)
}

// preview shows where the link leads and does not redirect.
func (p *public) preview(c echo.Context, code string) error {
	self, err := p.self(c)
	if err != nil {
		return err
	}
	link, err := p.resolve(c, code)
	if err != nil {
		return err
	}
	a := newAnswer(link, self)
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	if wantsPage(c.Request()) {
		return p.pages.preview(c, a)
	}
	return reply.JSON(c.Response(), mediaJSON, http.StatusOK, a)
}

// resolve looks a code up. It counts a miss for the limit of the client.
func (p *public) resolve(c echo.Context, code string) (shortener.Link, error) {
	client := clientPrefix(c.RealIP())
	if err := p.misses.admit(client); err != nil {
		return shortener.Link{}, err
	}
	link, err := p.service.Resolve(c.Request().Context(), code)
	if errors.Is(err, shortener.ErrNotFound) {
		p.misses.count(client)
	}
	return link, err
}

// fullAge is the Cache-Control of most redirects; net/http only reads it.
var fullAge = []string{"private, max-age=90"} //nolint:gochecknoglobals // never changed; Go has no slice constants

// cacheControl allows caching for redirectAge, but not past the expiry of the link.
func cacheControl(l *shortener.Link) []string {
	if l.ExpiresAt.IsZero() {
		return fullAge
	}
	left := time.Until(l.ExpiresAt)
	if left >= redirectAge {
		return fullAge
	}
	return []string{"private, max-age=" + strconv.Itoa(max(0, int(left.Seconds())))}
}

// Limits of one client. People mistype a code now and then, and people of one office share
// an address; a scan for codes needs thousands of requests a second.
const (
	missesPerSecond = 50
	missBurst       = 200
	clientsKept     = 1 << 16 // limiters in memory at the same time; a few MB at most
)

// missLimiter refuses clients with too many misses. Only misses count: a client that
// follows existing links is never refused, and one without misses costs a lookup in an
// in-memory table. It is safe for concurrent use.
type missLimiter struct {
	// A limiter without use is full again after some seconds, and then equals a new one:
	// the table needs a size limit and no expiry.
	limiters *otter.Cache[netip.Prefix, *rate.Limiter]
}

func newMissLimiter() *missLimiter {
	return &missLimiter{limiters: otter.Must(&otter.Options[netip.Prefix, *rate.Limiter]{
		MaximumSize: clientsKept,
		Executor:    func(f func()) { f() }, // without a goroutine
	})}
}

// clientPrefix returns the prefix that counts as one client: an IPv4 address, or the /64
// that an IPv6 subscriber has at least (RFC 6177). A malformed address has the zero prefix.
func clientPrefix(ip string) netip.Prefix {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return netip.PrefixFrom(addr, 32)
	}
	return netip.PrefixFrom(addr.WithZone(""), 64).Masked()
}

// admit fails with errTooManyMisses while the client has used up its misses. Callers ask it
// before the lookup, so a refusal does not reveal whether the code exists.
func (m *missLimiter) admit(client netip.Prefix) error {
	if l, ok := m.limiters.GetIfPresent(client); ok && l.Tokens() < 1 {
		return errTooManyMisses
	}
	return nil
}

// count counts one miss against the client.
func (m *missLimiter) count(client netip.Prefix) {
	l, ok := m.limiters.GetIfPresent(client)
	if !ok {
		l, _ = m.limiters.SetIfAbsent(client, rate.NewLimiter(missesPerSecond, missBurst))
	}
	// Reserve takes the token even when none is left: of the requests that one token
	// admitted together, each has to pay.
	l.Reserve()
}
