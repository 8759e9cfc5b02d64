package web

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
)

// instrument is the only middleware: it turns a panic into an error, an error into
// its answer, and counts the answer. One layer instead of three, because every
// redirect goes through it.
func (p *public) instrument(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		if err := recovered(next, c); err != nil {
			c.Error(err)
		}
		p.metrics.answered(c.Path(), c.Request().Method, c.Response().Status, time.Since(start))
		return nil
	}
}

// recovered calls next and gives its panic as an error, stack included.
func recovered(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler: // how a handler asks net/http to cut the connection
			panic(v)
		default:
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return next(c)
}
