package web

import (
	"net/http"
	"time"

	"keypool/shortener"
	"keypool/web/internal/reply"

	"github.com/labstack/echo/v4"
)

// answer is a link as clients see it.
type answer struct {
	Code      string    `json:"code"`
	ShortURL  string    `json:"short_url"`
	URL       string    `json:"url"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func newAnswer(l shortener.Link, base string) *answer {
	return &answer{
		Code:      l.Code,
		ShortURL:  base + "/" + l.Code,
		URL:       l.URL,
		CreatedAt: l.CreatedAt.UTC(),
		ExpiresAt: l.ExpiresAt.UTC(),
	}
}

// formKey is where the entered fields wait in the echo.Context for the page that
// shows what was wrong with them.
const formKey = "form"

// base is what a short URL begins with.
func (p *public) base(c echo.Context) (string, error) {
	base := p.origin.of(c.Request())
	if base == "" {
		return "", malformed("The Host header names no host that a short URL could begin with.")
	}
	return base, nil
}

// create is POST /shorten.
func (p *public) create(c echo.Context) error {
	base, err := p.base(c)
	if err != nil {
		return err
	}
	f, err := readFields(c.Response(), c.Request())
	if err != nil {
		return err
	}
	link, existing, err := p.service.Create(c.Request().Context(), f.request(base))
	if err != nil {
		c.Set(formKey, f)
		return err
	}
	status := http.StatusOK
	a := newAnswer(link, base)
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
