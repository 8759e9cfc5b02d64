package web

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/internal/reply"
)

// answer is the JSON representation of a link.
type answer struct {
	Code      string    `json:"code"`
	ShortURL  string    `json:"short_url"`
	URL       string    `json:"url"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func newAnswer(l shortener.Link, self shortener.Origin) *answer {
	return &answer{
		Code:      l.Code,
		ShortURL:  self.String() + "/" + l.Code,
		URL:       l.URL,
		CreatedAt: l.CreatedAt.UTC(),
		ExpiresAt: l.ExpiresAt.UTC(),
	}
}

// formKey names the value in the echo.Context that holds the shortener.Request of a failed
// creation. The error page shows its fields again.
const formKey = "form"

// self returns the origin of this service. Each short URL begins with this origin.
func (p *public) self(c echo.Context) (shortener.Origin, error) {
	self := p.origin.of(c.Request())
	if self.IsZero() {
		return self, malformed("The Host header does not name a host that a short URL can contain.")
	}
	return self, nil
}

// create answers POST /shorten.
func (p *public) create(c echo.Context) error {
	self, err := p.self(c)
	if err != nil {
		return err
	}
	// MaxBytesReader closes the connection only through the ResponseWriter of net/http.
	r, err := readFields(c.Response().Writer, c.Request())
	if err != nil {
		return err
	}
	r.Self = self
	link, existing, err := p.service.Create(c.Request().Context(), r)
	if err != nil {
		c.Set(formKey, r)
		return err
	}
	status := http.StatusOK
	a := newAnswer(link, self)
	if !existing {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, a.ShortURL)
	}
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	switch negotiate(c.Request(), mediaJSON, mediaText, mediaHTML) {
	case mediaText:
		return c.String(status, a.ShortURL+"\n")
	case mediaHTML:
		return p.pages.created(c, status, a)
	}
	return reply.JSON(c.Response(), mediaJSON, status, a)
}
