package bench

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// target is where every link of a bench leads.
const target = "https://go.dev/doc/effective_go"

// headerTimeout bounds how long a client may take to send the head of a request.
const headerTimeout = 10 * time.Second

// ServeBare serves what the server is compared with, on addr until ctx ends: a creation
// that parses and writes the same JSON and stores nothing, and a redirect that always
// leads to the same place.
func ServeBare(ctx context.Context, addr string) error {
	server := &http.Server{Addr: addr, Handler: bareHandler(), ReadHeaderTimeout: headerTimeout}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := server.Close()
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func bareHandler() http.Handler {
	e := echo.New()
	e.POST("/shorten", func(c echo.Context) error {
		var v struct {
			URL string `json:"url"`
		}
		if err := c.Bind(&v); err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, map[string]string{
			"code": "fdMx0H", "short_url": "http://127.0.0.1:20000/fdMx0H", "url": v.URL, "created_at": "2026-11-21T08:48:17.724315Z",
		})
	})
	e.GET("/:code", func(c echo.Context) error { return c.Redirect(http.StatusFound, target) })
	return e
}
