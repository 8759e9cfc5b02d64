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

// redirectAge is the longest time for which a browser may cache a redirect. The cache saves
// requests. A browser that has a redirect in its cache may follow the link for this time after
// the deletion of the link.
const redirectAge = 90 * time.Second

// code answers GET and HEAD of /{code} and /{code}+. It reads the decoded path because a
// percent-encoded letter is equivalent to the letter itself (RFC 3986 section 6.2.2.2).
func (p *public) code(c echo.Context) error {
	code, preview := strings.CutSuffix(c.Request().URL.Path[1:], "+")
	if preview {
		c.SetPath(routePreview)
		return p.preview(c, code)
	}
	return p.follow(c, code)
}

// follow redirects to the URL of the link. The Location header is the URL as stored, byte
// for byte.
func (p *public) follow(c echo.Context, code string) error {
	link, err := p.resolve(c, code)
	if c.Request().Method == http.MethodGet {
		p.metrics.visited(err)
	}
	if err != nil {
		return err
	}
	// Assignments avoid the slice that Header.Set would allocate for a constant value.
	h := c.Response().Header()
	h[echo.HeaderLocation] = []string{link.URL}
	h[echo.HeaderCacheControl] = cacheControl(&link)
	return c.NoContent(http.StatusFound)
}

// preview shows the URL of the link and does not redirect.
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

// resolve looks up a code. If the code is unknown, resolve counts a miss against the
// client.
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

// fullAge is the Cache-Control header of most redirects. The redirects can share this slice
// because net/http only reads it.
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

// Limits of one client. They allow for typing errors and for many people who share one
// address. A scan for codes needs thousands of requests per second.
const (
	missesPerSecond = 50
	missBurst       = 200
	clientsKept     = 1 << 16 // limiters in memory; they take a few MB at most
)

// missLimiter refuses clients with too many misses. Only misses count, so a client that
// follows existing links is never refused. A request of a client without misses costs one
// lookup in memory. missLimiter is safe for concurrent use.
type missLimiter struct {
	// An unused limiter has all its tokens again after a few seconds, and then equals a new
	// limiter. Therefore the table needs a size limit but no expiry.
	limiters *otter.Cache[netip.Prefix, *rate.Limiter]
}

func newMissLimiter() *missLimiter {
	return &missLimiter{limiters: otter.Must(&otter.Options[netip.Prefix, *rate.Limiter]{
		MaximumSize: clientsKept,
		Executor:    func(f func()) { f() }, // run maintenance in the calling goroutine
	})}
}

// clientPrefix returns the prefix of the addresses that count as one client: a single IPv4
// address, or an IPv6 /64, which is the smallest network that a subscriber gets (RFC 6177). A
// malformed address has the zero prefix.
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

// admit returns errTooManyMisses while the client has no misses left. Callers call it
// before the lookup, so that a refusal does not reveal whether the code exists.
func (m *missLimiter) admit(client netip.Prefix) error {
	if l, ok := m.limiters.GetIfPresent(client); ok && l.Tokens() < 1 {
		return errTooManyMisses
	}
	return nil
}

// count records one miss of the client.
func (m *missLimiter) count(client netip.Prefix) {
	l, ok := m.limiters.GetIfPresent(client)
	if !ok {
		l, _ = m.limiters.SetIfAbsent(client, rate.NewLimiter(missesPerSecond, missBurst))
	}
	// Reserve takes a token even if none is left. One token can admit several concurrent
	// requests, and each of their misses must count.
	l.Reserve()
}
