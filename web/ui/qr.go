package ui

import (
	"html/template"
	"net/http"
	"strconv"

	"keypool/web/internal/qr"
	"keypool/web/internal/reply"
)

const (
	shownSize  = 176  // CSS pixels
	savedSize  = 1024 // pixels
	quietWidth = 4    // modules, as ISO/IEC 18004 requires
)

// drawing is an SVG image in a page.
type drawing = template.HTML

func drawSVG(c *qr.Code) ([]byte, error) { return c.SVG(shownSize, quietWidth), nil }
func drawPNG(c *qr.Code) ([]byte, error) { return c.PNG(savedSize, quietWidth) }

// drawInline returns the QR code as an SVG element for a page. Short URLs may have another origin than the page. The
// Content-Security-Policy of the page permits only images of its own origin. So the page contains the image instead of
// loading /{code}.svg. The result is "" if the drawing fails.
func (u *UI) drawInline(x *exchange, short string) drawing {
	svg, err := u.Drawer.Draw(x.r.Context(), u.Client(x.r), short, qr.M, drawSVG)
	if err != nil {
		u.warn(x, "draw the QR code", err)
	}
	return drawing(svg) // the image contains no text of the request
}

func (u *UI) downloadPNG(x *exchange) error { return u.download(x, "png", "image/png", drawPNG) }
func (u *UI) downloadSVG(x *exchange) error { return u.download(x, "svg", "image/svg+xml", drawSVG) }

// download sends the QR code of a link as a file.
func (u *UI) download(x *exchange, suffix, media string, draw func(*qr.Code) ([]byte, error)) error {
	link, err := u.find(x)
	if err != nil {
		return err
	}
	image, err := u.Drawer.Draw(x.r.Context(), u.Client(x.r), u.Origin(x.r).String()+"/"+link.Code, qr.M, draw)
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", media)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Content-Disposition", "attachment; filename="+strconv.Quote(link.Code+"."+suffix))
	if err := reply.Send(x.w, http.StatusOK, image); err != nil {
		u.Logger.Debug("cannot send a QR code", "error", err)
	}
	return nil
}
