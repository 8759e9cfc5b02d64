package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/api"
	"keypool/web/client"
	"keypool/web/internal/parameters"
	"keypool/web/internal/problem"
	"keypool/web/internal/qr"
)

// Suffixes of the paths of QR codes. A code contains no dot, so such a path is not the path of a link.
const (
	suffixSVG = ".svg"
	suffixPNG = ".png"
)

// Limits of the parameters of a QR code. The default level of error correction is qr.M.
const (
	minQRSize     = 64
	maxQRSize     = 2048
	defaultQRSize = 256
	maxQRMargin   = 16
	// defaultQRMargin is the margin that ISO/IEC 18004 requires, in modules.
	defaultQRMargin = 4
)

// qrAge is the longest time for which a QR code may be cached. The QR code of a link never
// changes, but the link may be deleted.
const qrAge = time.Hour

// cutQR cuts the suffix of a QR code off a path. It runs for every redirect, so it first looks for the dot, which most
// paths lack.
func cutQR(path string) (code, suffix string) {
	if i := len(path) - len(suffixSVG); i >= 0 && path[i] == '.' && (path[i:] == suffixSVG || path[i:] == suffixPNG) {
		return path[:i], path[i:]
	}
	return path, ""
}

// qr answers GET and HEAD of /{code}.svg and /{code}.png with the QR code of the short URL. A
// request for a QR code is not a visit.
func (p *public) qr(c echo.Context, code, suffix string) error {
	options, err := readQROptions(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	self, err := p.proxies.Self(c)
	if err != nil {
		return err
	}
	link, err := p.resolve(c, code)
	if err != nil {
		return err
	}
	draw := options.png
	if suffix == suffixSVG {
		draw = options.svg
	}
	image, err := p.drawer.Draw(c.Request().Context(), client.PrefixOf(c.RealIP()), api.NewLink(link, self).ShortURL, options.level, draw)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderCacheControl, qrCacheControl(&link))
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderContentSecurityPolicy, "default-src 'none'") // a browser can open an SVG as a page
	return c.Blob(http.StatusOK, map[string]string{suffixSVG: "image/svg+xml", suffixPNG: "image/png"}[suffix], image)
}

// qrCacheControl allows caching for qrAge, but not past the expiry of the link.
func qrCacheControl(l *shortener.Link) string {
	age := qrAge
	if !l.ExpiresAt.IsZero() {
		age = max(0, min(age, time.Until(l.ExpiresAt)))
	}
	return "public, max-age=" + strconv.Itoa(int(age.Seconds()))
}

// qrOptions are the parameters of a QR code.
type qrOptions struct {
	size, margin int
	level        qr.Level
}

// readQROptions parses the query of a request for a QR code. It fails with the errors of [parameters.Read].
func readQROptions(query string) (o qrOptions, err error) {
	o = qrOptions{size: defaultQRSize, margin: defaultQRMargin, level: qr.M}
	err = parameters.Read(query, o.set)
	return o, err
}

func (o *qrOptions) set(name, value string) (err error) {
	switch name {
	case "size":
		o.size, err = parameters.Int(name, value, minQRSize, maxQRSize)
	case "margin":
		o.margin, err = parameters.Int(name, value, 0, maxQRMargin)
	case "ec":
		var known bool
		if o.level, known = qr.ParseLevel(value); !known {
			return problem.Malformed("The parameter ec must be L, M, Q or H.")
		}
	default:
		return parameters.Unknown(name, "A QR code has the parameters size, ec and margin.")
	}
	return err
}

func (o *qrOptions) svg(code *qr.Code) ([]byte, error) { return code.SVG(o.size, o.margin), nil }

func (o *qrOptions) png(code *qr.Code) ([]byte, error) {
	image, err := code.PNG(o.size, o.margin)
	if small, ok := errors.AsType[*qr.TooSmallError](err); ok {
		return nil, problem.Malformed(fmt.Sprintf("The parameter size must be at least %d for this link with ec %s and margin %d.", small.Least, o.level, o.margin))
	}
	return image, err
}
