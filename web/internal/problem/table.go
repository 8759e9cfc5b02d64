package problem

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/labstack/echo/v4"

	"keypool/internal/slots"
	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/internal/reply"
)

// StatusClientGone is the status of a request that the client closed before the answer.
// nginx uses the same status. Without this status, such requests would count as 5xx.
const StatusClientGone = 499

// table maps errors to problems. The first row that matches applies, so a specific row
// precedes a general row.
var table = []struct { //nolint:gochecknoglobals // never changed; Go has no constant tables
	matches func(error) bool
	problem reply.Problem
}{
	{is(errClientGone), problem("client-gone", StatusClientGone, "The client did not wait", "")},
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
		"The link has none of the versions in the If-Match header. Read the link again.")},
	{is(errMalformed), problem("malformed", http.StatusBadRequest, "The request is malformed", "")},
	{is(errUnsupported), problem("unsupported-media-type", http.StatusUnsupportedMediaType, "The media type is not supported", "")},
	{is(errTooLarge), problem("too-large", http.StatusRequestEntityTooLarge, "The body is too large", "")},
	{as[*http.MaxBytesError], problem("too-large", http.StatusRequestEntityTooLarge, "The body is too large", "")},
	{is(ErrTooManyMisses), problem("too-many-misses", http.StatusTooManyRequests, "Too many requests",
		"Your IP address requested too many unknown codes or aliases of other links, or had too many failed sign-ins.")},
	{is(ErrLimited), problem("rate-limited", http.StatusTooManyRequests, "Too many links",
		"You created too many links in a short time.")},
	{is(errUnauthorized), problem("unauthorized", http.StatusUnauthorized, "No valid token", "")},
	{is(errForbidden), problem("forbidden", http.StatusForbidden, "The token does not permit this", "")},
	{is(slots.ErrBusy), problem("unavailable", http.StatusServiceUnavailable, "The service is busy",
		"Too many requests of this kind are in progress, either of your token or address, or of all clients. Try again shortly.")},
	{as[*shortener.UnavailableError], reply.Unavailable()},
	{is(ErrMisdirected), problem("misdirected", http.StatusMisdirectedRequest, "The host is not the host of this service",
		"The Host header names another host than BASE_URL. A proxy must pass the Host header of the client.")},
	{is(ErrVisitsOff), problem("visits-off", http.StatusNotFound, "Visits are not counted", "The operator of this service does not count visits.")},
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

// Of returns the problem of err. The problem of an error that is not in the table is a 500 without
// details.
func Of(err error) reply.Problem {
	p := problem("internal", http.StatusInternalServerError, "Something went wrong", "The server failed to handle the request. The error is in its log.")
	for i := range table {
		if table[i].matches(err) {
			p = table[i].problem
			break
		}
	}
	if invalid, ok := errors.AsType[*shortener.InvalidError](err); ok {
		p.Detail, p.Field = invalid.Error(), invalid.Field
	}
	if d, ok := errors.AsType[*detailedError](err); ok {
		p.Detail = d.detail
	}
	if m, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.Detail = fmt.Sprintf("A body may have %d bytes at most.", m.Limit)
	}
	if t, ok := errors.AsType[*suggestingError](err); ok {
		p.Suggestions = t.free
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = RetrySeconds(err)
	}
	if p.Status == http.StatusTooManyRequests {
		p.Detail += fmt.Sprintf(" Try again in %d s.", p.RetryAfter)
	}
	return p
}

// RetrySeconds returns the seconds after which a client may send a request again, rounded up. The
// result is at least 1.
func RetrySeconds(err error) int {
	if u, ok := errors.AsType[*shortener.UnavailableError](err); ok {
		return max(1, int(math.Ceil(u.RetryAfter.Seconds())))
	}
	if l, ok := errors.AsType[*LimitedError](err); ok {
		return l.RetrySeconds
	}
	return 1
}
