package web

import (
	"net/http"
	"time"

	"keypool/shortener"
	"keypool/web/internal/reply"

	"github.com/labstack/echo/v4"
)

// answer is the representation of a link for clients.
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

// formKey is the key in the echo.Context of the entered fields. The page of an error
// shows them again.
const formKey = "form"

// self returns the origin of this service, with which a short URL begins.
func (p *public) self(c echo.Context) (shortener.Origin, error) {
	self := p.origin.of(c.Request())
	if self.IsZero() {
		return self, malformed("The Host header does not name a host with which a short URL could begin.")
	}
	return self, nil
}

// create answers POST /shorten.
func (p *public) create(c echo.Context) error {
	self, err := p.self(c)
	if err != nil {
		return err
	}
	f, err := readFields(c.Response(), c.Request())
	if err != nil {
		return err
	}
	link, existing, err := p.service.Create(c.Request().Context(), f.request(self))
	if err != nil {
		c.Set(formKey, f)
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
