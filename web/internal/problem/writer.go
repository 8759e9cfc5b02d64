package problem

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"keypool/internal/slots"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// Writer answers requests that failed. It is safe for concurrent use.
type Writer struct {
	page   func(echo.Context, reply.Problem) error
	log    *slog.Logger
	outage *rate.Sometimes // limits log lines, because every request fails during an outage
	busy   *rate.Sometimes // limits log lines about requests that waited too long for other requests
}

// NewWriter returns a writer. page shows a problem to a person.
func NewWriter(page func(echo.Context, reply.Problem) error, log *slog.Logger) *Writer {
	return &Writer{page: page, log: log, outage: &rate.Sometimes{Interval: time.Minute}, busy: &rate.Sometimes{Interval: time.Minute}}
}

// Write implements [echo.HTTPErrorHandler]. A browser gets a page, and any other client gets JSON. If a part of the
// answer was sent already, Write breaks the connection, so that the client knows that the answer is incomplete.
func (w *Writer) Write(err error, c echo.Context) {
	p := Of(err)
	if p.Status >= http.StatusInternalServerError && c.Request().Context().Err() != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err) // the closed request caused the error
		p = Of(err)
	}
	w.Report(err, p, c)
	if c.Response().Committed {
		abort(c)
	}
	h := c.Response().Header()
	// A 404 is cacheable by default (RFC 9110 section 15.1), but a link with this code may be
	// created a moment later.
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set(echo.HeaderWWWAuthenticate, BearerScheme)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	if unsupported, ok := errors.AsType[*unsupportedError](err); ok {
		h.Set(echo.HeaderAccept, strings.Join(unsupported.accepted, ", "))
	}
	if media.WantsPage(c.Request()) {
		err = w.page(c, p)
	} else {
		err = p.Write(c.Response())
	}
	if err != nil {
		w.log.Debug("write answer", "route", c.Path(), "error", err)
	}
}

// abort breaks the connection of a request. It panics, as net/http requires. An HTTP/1.0 answer without a length ends
// where the connection ends. Therefore abort resets an HTTP/1.0 connection, so that the client sees an error. Older
// releases of nginx use HTTP/1.0 by default.
func abort(c echo.Context) {
	if !c.Request().ProtoAtLeast(1, 1) {
		if conn, _, err := c.Response().Hijack(); err == nil {
			if tcp, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
				_ = tcp.SetLinger(0) // if it fails, the connection is broken already
			}
			_ = conn.Close() // if it fails, the client gets no more data either
		}
	}
	panic(http.ErrAbortHandler)
}

// Report logs an error that the operator must know. p is the problem of err. An error with status 503 reports either an
// outage or too many requests at the same time. Report logs each of these two kinds at most once a minute. It logs every
// other error with a status of 500 or more. It does not log an error with status 503 if the client has left.
func (w *Writer) Report(err error, p reply.Problem, c echo.Context) {
	switch {
	case p.Status == http.StatusServiceUnavailable && c.Request().Context().Err() != nil:
		// The end of the request caused the error.
	case p.Status == http.StatusServiceUnavailable:
		lines := w.outage
		if errors.Is(err, slots.ErrBusy) {
			lines = w.busy // one busy client must not hide an outage
		}
		lines.Do(func() { w.log.Warn("requests refused", "route", c.Path(), "error", err) })
	case p.Status >= http.StatusInternalServerError:
		w.log.Error("request failed", "route", c.Path(), "method", c.Request().Method, "error", err)
	}
}
