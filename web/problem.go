package web

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"keypool/shortener"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"
)

// typePrefix begins every problem type. Types are stable: programs branch on them.
const typePrefix = "urn:keypool:problem:"

// Errors that arise in this package.
var (
	errMalformed   = errors.New("the request is malformed")
	errUnsupported = errors.New("the media type is not supported")
	errClientGone  = errors.New("the client did not wait for the answer")
	errScanning    = errors.New("the client asks for too many codes that do not exist")
)

// detailedError is an error whose detail is written for the client.
type detailedError struct {
	error
	detail string
}

func (e *detailedError) Unwrap() error { return e.error }

func malformed(detail string) error   { return &detailedError{errMalformed, detail} }
func unsupported(detail string) error { return &detailedError{errUnsupported, detail} }

// statusClientGone is what proxies and dashboards know a request by whose client
// did not wait for the answer. Nobody receives it; it keeps the 5xx rate honest.
const statusClientGone = 499

// problem is the body of every error (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"` // the member of the request that is to blame
}

// problemTable says what a client is told of an error. The first row that matches
// counts, so a row for one cause stands above a row for many.
var problemTable = []struct { //nolint:gochecknoglobals // a constant, which a table cannot be
	matches func(error) bool
	problem problem
}{
	{is(errClientGone), problem{"client-gone", "The client did not wait", statusClientGone, "", ""}},
	{as[*shortener.InvalidError], problem{"invalid-field", "A field is not acceptable", 422, "", ""}},
	{is(shortener.ErrAliasTaken), problem{"alias-taken", "The alias is taken", 409,
		"The alias belongs to another link, or did once. Choose a different one.", "alias"}},
	{is(shortener.ErrNotFound), problem{"not-found", "There is no such link", 404,
		"No link has this code. Codes are case-sensitive.", ""}},
	{is(shortener.ErrGone), problem{"gone", "The link is gone", 410,
		"The link was deleted or has expired, and its code will not be used again.", ""}},
	{is(errMalformed), problem{"malformed", "The request is malformed", 400, "", ""}},
	{is(errUnsupported), problem{"unsupported-media-type", "The media type is not supported", 415, "", ""}},
	{as[*http.MaxBytesError], problem{"too-large", "The body is too large", 413,
		"A body may have 16384 bytes at most.", ""}},
	{is(errScanning), problem{"too-many-misses", "Too many requests", 429,
		"Too many requests for codes that do not exist came from this address.", ""}},
	{as[*shortener.UnavailableError], unavailable()},
	{is(echo.ErrMethodNotAllowed), problem{"method-not-allowed", "The method is not allowed here", 405,
		"The Allow header names the methods that are.", ""}},
	{is(echo.ErrNotFound), problem{"no-such-page", "There is no such page", 404, "Nothing is served at this path.", ""}},
}

func unavailable() problem {
	return problem{"unavailable", "The service is unavailable", 503, "The request could not be served just now. Please try again shortly.", ""}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// problemOf looks err up in the table; what is not there is a 500 that tells nothing.
func problemOf(err error) problem {
	p := problem{"internal", "Something went wrong", 500, "The error was logged; it is not the fault of the request.", ""}
	for i := range problemTable {
		if problemTable[i].matches(err) {
			p = problemTable[i].problem
			break
		}
	}
	if invalid, ok := errors.AsType[*shortener.InvalidError](err); ok {
		p.Detail, p.Field = invalid.Error(), invalid.Field
	}
	if d, ok := errors.AsType[*detailedError](err); ok {
		p.Detail = d.detail
	}
	p.Type = typePrefix + p.Type
	return p
}

// problemWriter answers requests that failed.
type problemWriter struct {
	pages  *pages
	origin *origin
	log    *slog.Logger
	outage *rate.Sometimes // an outage is one story, not one line for each request
}

func newProblemWriter(ui *pages, o *origin, log *slog.Logger) *problemWriter {
	return &problemWriter{pages: ui, origin: o, log: log, outage: &rate.Sometimes{Interval: time.Second}}
}

// write is the echo.HTTPErrorHandler: a page for a browser, a problem for the rest.
func (w *problemWriter) write(err error, c echo.Context) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && c.Request().Context().Err() != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err) // whatever came of that is nobody's fault here
		p = problemOf(err)
	}
	w.report(err, p, c)
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	// 404 and 410 are cacheable unless told otherwise (RFC 9110 section 15.1), and an
	// alias may be made a moment later.
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(retrySeconds(err)))
	case http.StatusUnsupportedMediaType:
		h.Set(echo.HeaderAccept, mediaJSON+", "+mediaForm)
	}
	if wantsPage(c.Request()) {
		err = w.pages.problem(c, w.origin, p)
	} else {
		err = writeJSON(c.Response(), mediaProblem, p.Status, p)
	}
	if err != nil {
		w.log.Debug("answer not written", "route", c.Path(), "error", err)
	}
}

func (w *problemWriter) report(err error, p problem, c echo.Context) {
	switch {
	case p.Status == http.StatusServiceUnavailable:
		w.outage.Do(func() { w.log.Warn("requests refused", "route", c.Path(), "error", err) })
	case p.Status >= http.StatusInternalServerError:
		w.log.Error("request failed", "route", c.Path(), "method", methodLabel(c.Request().Method), "error", err)
	}
}

// retrySeconds is the Retry-After of err, in whole seconds rounded up, at least one.
func retrySeconds(err error) int {
	if u, ok := errors.AsType[*shortener.UnavailableError](err); ok {
		return max(1, int(math.Ceil(u.RetryAfter.Seconds())))
	}
	return 1
}
