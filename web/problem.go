package web

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/internal/reply"
)

// Errors of this package.
var (
	errMalformed     = errors.New("the request is malformed")
	errUnsupported   = errors.New("the media type is not supported")
	errClientGone    = errors.New("the client closed the request")
	errTooManyMisses = errors.New("the client requested too many unknown codes")
	errLimited       = errors.New("the client created too many links")
	errUnauthorized  = errors.New("the request has no valid token")
	errVisitsOff     = errors.New("visits are not counted")
	errForbidden     = errors.New("the token does not permit the request")
)

// detailedError is an error with a text for the client.
type detailedError struct {
	error
	detail string
}

func (e *detailedError) Unwrap() error { return e.error }

func malformed(detail string) error    { return &detailedError{errMalformed, detail} }
func unsupported(detail string) error  { return &detailedError{errUnsupported, detail} }
func unauthorized(detail string) error { return &detailedError{errUnauthorized, detail} }
func forbidden(detail string) error    { return &detailedError{errForbidden, detail} }

// statusClientGone is the status of a request that the client closed before the answer.
// nginx uses the same status. Without it, such requests would count as 5xx.
const statusClientGone = 499

// problemTable maps errors to problems. The first row that matches wins, so a specific row
// precedes a general row.
var problemTable = []struct { //nolint:gochecknoglobals // never changed; Go has no constant tables
	matches func(error) bool
	problem reply.Problem
}{
	{is(errClientGone), problem("client-gone", statusClientGone, "The client did not wait", "")},
	{as[*shortener.InvalidError], problem("invalid-field", http.StatusUnprocessableEntity, "A field is not acceptable", "")},
	{is(destination.ErrBlocked), reply.Problem{
		Type: reply.TypePrefix + "blocked-destination", Title: "The destination is blocked", Status: http.StatusUnprocessableEntity,
		Detail: "url must not lead to a host that the operator of this service blocks", Field: "url",
	}},
	{is(shortener.ErrAliasTaken), reply.Problem{
		Type: reply.TypePrefix + "alias-taken", Title: "The alias is taken", Status: http.StatusConflict,
		Detail: "The alias belongs to another link, or to a link that is gone. Choose another alias.", Field: "alias",
	}},
	{is(shortener.ErrNotFound), problem("not-found", http.StatusNotFound, "There is no such link",
		"No link has this code. Codes are case-sensitive.")},
	{is(shortener.ErrLinkBlocked), problem("gone", http.StatusGone, "The link is gone",
		"The operator of this service blocks the host to which this link leads.")},
	{is(shortener.ErrGone), problem("gone", http.StatusGone, "The link is gone",
		"The link was deleted or has expired. Its code is never used again.")},
	{is(shortener.ErrFixed), reply.Problem{
		Type: reply.TypePrefix + "fixed-link", Title: "The URL of the link is fixed", Status: http.StatusConflict,
		Detail: "The link was not created as editable, so its URL never changes.", Field: "url",
	}},
	{is(shortener.ErrKeyReused), problem("key-reused", http.StatusUnprocessableEntity, "The idempotency key belongs to another request",
		"A request with this idempotency key and another payload created a link. Send a new key with a new request.")},
	{is(shortener.ErrKeyBusy), problem("key-busy", http.StatusConflict, "A request with the same idempotency key is in progress",
		"Send the request again shortly.")},
	{is(shortener.ErrVersion), problem("version-mismatch", http.StatusPreconditionFailed, "The link has another version",
		"The link has none of the versions in the If-Match header. Read it again.")},
	{is(errMalformed), problem("malformed", http.StatusBadRequest, "The request is malformed", "")},
	{is(errUnsupported), problem("unsupported-media-type", http.StatusUnsupportedMediaType, "The media type is not supported", "")},
	{as[*http.MaxBytesError], problem("too-large", http.StatusRequestEntityTooLarge, "The body is too large",
		fmt.Sprintf("A body may have %d bytes at most.", maxBody))},
	{is(errTooManyMisses), problem("too-many-misses", http.StatusTooManyRequests, "Too many requests",
		"Your IP address requested too many unknown codes, or aliases that belong to other links.")},
	{is(errLimited), problem("rate-limited", http.StatusTooManyRequests, "Too many links",
		"You created too many links in a short time.")},
	{is(errUnauthorized), problem("unauthorized", http.StatusUnauthorized, "No valid token", "")},
	{is(errForbidden), problem("forbidden", http.StatusForbidden, "The token does not permit this", "")},
	{as[*shortener.UnavailableError], reply.Unavailable()},
	{is(errMisdirected), problem("misdirected", http.StatusMisdirectedRequest, "The host is not the host of this service",
		"The Host header names another host than BASE_URL. A proxy must pass the Host header of the client.")},
	{is(errVisitsOff), problem("visits-off", http.StatusNotFound, "Visits are not counted", "The operator of this service does not count visits.")},
	{is(echo.ErrMethodNotAllowed), problem("method-not-allowed", http.StatusMethodNotAllowed, "The method is not allowed here",
		"The Allow header lists the methods that are allowed.")},
	{is(echo.ErrNotFound), problem("no-such-page", http.StatusNotFound, "There is no such page", "There is nothing at this path.")},
}

func problem(name string, status int, title, detail string) reply.Problem {
	return reply.Problem{Type: reply.TypePrefix + name, Title: title, Status: status, Detail: detail}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// problemOf returns the problem of err. An error that is not in the table is a 500 without
// details.
func problemOf(err error) reply.Problem {
	p := problem("internal", http.StatusInternalServerError, "Something went wrong", "The server failed to handle the request. The error is in its log.")
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
	if t, ok := errors.AsType[*takenError](err); ok {
		p.Suggestions = t.free
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = retrySeconds(err)
	}
	if p.Status == http.StatusTooManyRequests {
		p.Detail += fmt.Sprintf(" Try again in %d s.", p.RetryAfter)
	}
	return p
}

// problemWriter answers failed requests.
type problemWriter struct {
	pages  *pages
	origin *origin
	log    *slog.Logger
	outage *rate.Sometimes // limits log lines, because every request fails during an outage
}

func newProblemWriter(ui *pages, o *origin, log *slog.Logger) *problemWriter {
	return &problemWriter{pages: ui, origin: o, log: log, outage: &rate.Sometimes{Interval: time.Second}}
}

// write is the echo.HTTPErrorHandler. A browser gets a page, and any other client gets
// JSON.
func (w *problemWriter) write(err error, c echo.Context) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && c.Request().Context().Err() != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err) // the closed request caused the error
		p = problemOf(err)
	}
	w.report(err, p, c)
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	// A 404 is cacheable by default (RFC 9110 section 15.1), but a link with this code may be
	// created a moment later.
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set(echo.HeaderWWWAuthenticate, bearerScheme)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	case http.StatusUnsupportedMediaType:
		h.Set(echo.HeaderAccept, mediaJSON+", "+mediaForm)
	}
	if wantsPage(c.Request()) {
		err = w.pages.problem(c, w.origin, p)
	} else {
		err = p.Write(c.Response())
	}
	if err != nil {
		w.log.Debug("write answer", "route", c.Path(), "error", err)
	}
}

func (w *problemWriter) report(err error, p reply.Problem, c echo.Context) {
	switch {
	case p.Status == http.StatusServiceUnavailable:
		w.outage.Do(func() { w.log.Warn("requests refused", "route", c.Path(), "error", err) })
	case p.Status >= http.StatusInternalServerError:
		w.log.Error("request failed", "route", c.Path(), "method", methodLabel(c.Request().Method), "error", err)
	}
}

// retrySeconds returns the seconds after which a client may send a request again, rounded up. It is
// at least 1.
func retrySeconds(err error) int {
	if u, ok := errors.AsType[*shortener.UnavailableError](err); ok {
		return max(1, int(math.Ceil(u.RetryAfter.Seconds())))
	}
	if l, ok := errors.AsType[*limitedError](err); ok {
		return l.retrySeconds
	}
	return 1
}
