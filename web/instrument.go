package web

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
)

// instrument is the only middleware: it turns a panic into an error, an error into its
// answer, and counts the answer. It is one layer instead of three because it runs for
// every redirect.
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

// recovered calls next and returns its panic as an error that includes the stack.
func recovered(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler: // asks net/http to close the connection
			panic(v)
		default:
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return next(c)
}
