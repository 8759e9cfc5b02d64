package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/internal/reply"
)

func TestProblemOfMapsErrorsToProblems(t *testing.T) {
	t.Parallel()
	gone := &shortener.UnavailableError{RetryAfter: 1200 * time.Millisecond, Err: errors.New("host db-7 refused")}
	tests := []struct {
		err    error
		status int
		name   string
		retry  int
	}{
		{fmt.Errorf("look up: %w", shortener.ErrNotFound), 404, "not-found", 1},
		{shortener.ErrGone, 410, "gone", 1},
		{shortener.ErrLinkBlocked, 410, "gone", 1},
		{destination.ErrBlocked, 422, "blocked-destination", 1},
		{shortener.ErrAliasTaken, 409, "alias-taken", 1},
		{&shortener.InvalidError{Field: "url", Reason: "must"}, 422, "invalid-field", 1},
		{gone, 503, "unavailable", 2},
		{&shortener.UnavailableError{Err: shortener.ErrStoreFull}, 503, "unavailable", 1},
		{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrRefused), 500, "internal", 1},
		{&http.MaxBytesError{Limit: 1}, 413, "too-large", 1},
		{&limitedError{errTooManyMisses, 7}, 429, "too-many-misses", 7},
		{&limitedError{errLimited, 3}, 429, "rate-limited", 3},
		{refusal(fmt.Errorf("%w: dial db-7", token.ErrUnavailable)), 503, "unavailable", 1},
		{refusal(token.ErrUnknown), 401, "unauthorized", 1},
		{forbidden("no"), 403, "forbidden", 1},
		{echo.ErrMethodNotAllowed, 405, "method-not-allowed", 1},
		{echo.ErrNotFound, 404, "no-such-page", 1},
		{errors.New("pq: password authentication failed"), 500, "internal", 1},
	}
	for _, tt := range tests {
		p := problemOf(tt.err)
		if p.Status != tt.status || p.Type != reply.TypePrefix+tt.name || p.Detail == "" || p.Title == "" {
			t.Errorf("the problem of %v is %+v", tt.err, p)
		}
		if strings.Contains(p.Detail, "db-7") || strings.Contains(p.Detail, "password") {
			t.Errorf("%v: the detail %q contains internals", tt.err, p.Detail)
		}
		if got := retrySeconds(tt.err); got != tt.retry {
			t.Errorf("%v: Retry-After is %d", tt.err, got)
		}
	}
}

// A panic fails only its own request, and the log contains the cause.
func TestPanicFailsOnlyItsRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.router.GET("/test/panic", func(echo.Context) error { panic("with a secret") })
	s.client.Transport = s.client.Transport.(*contract).next // openapi.yaml does not list the path
	r := s.do(t, http.MethodGet, "/test/panic", "")
	if p := decode[reply.Problem](t, r.body); r.status != 500 || p.Type != reply.TypePrefix+"internal" || strings.Contains(r.body, "secret") {
		t.Errorf("the panicking request has status %d and body %s", r.status, r.body)
	}
	if log := s.log.String(); !strings.Contains(log, "with a secret") || !strings.Contains(log, "problem_test.go") {
		t.Errorf("the log lacks the cause or the stack of the panic: %s", log)
	}
	if again := s.do(t, http.MethodGet, "/healthz", ""); again.status != http.StatusOK {
		t.Errorf("the request after the panic has status %d", again.status)
	}
}

// unreachable is a store whose server does not answer.
type unreachable struct{ shortener.Store }

var errUnreachable = errors.New("dial tcp 10.9.8.7: connection refused")

func (unreachable) Insert(context.Context, []shortener.Link) ([]shortener.Outcome, error) {
	return nil, errUnreachable
}
func (unreachable) Lookup(context.Context, string) (shortener.Link, error) {
	return shortener.Link{}, errUnreachable
}
func (unreachable) Ping(context.Context) error { return errUnreachable }

func TestUnreachableStoreAnswers503(t *testing.T) {
	t.Parallel()
	service, _ := newService(t, func(s shortener.Store) shortener.Store { return unreachable{s} })
	s := newSite(t, func(c *PublicConfig) { c.Service = service })
	for _, r := range []response{
		s.do(t, http.MethodPost, "/shorten", "url=https://go.dev", "Content-Type", mediaForm),
		s.do(t, http.MethodGet, "/abc", ""),
		s.do(t, http.MethodGet, "/healthz", ""),
	} {
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || strings.Contains(r.body, "10.9.8.7") {
			t.Errorf("the answer has status %d, header %v and body %s", r.status, r.header, r.body)
		}
	}
	if n := strings.Count(s.log.String(), "requests refused"); n < 1 || n > 2 {
		t.Errorf("the log has %d lines about refused requests; want one per second", n)
	}
}

func TestHealthzReportsDegraded(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.Degraded = func() bool { return true } })
	if r := s.do(t, http.MethodGet, "/healthz", ""); r.status != http.StatusOK || r.body != "{\"status\":\"degraded\"}\n" {
		t.Errorf("/healthz has status %d and body %q", r.status, r.body)
	}
}

// A request that its client closed is not an error of the service.
func TestClosedRequestIsNotAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/shorten", strings.NewReader("url=https://go.dev"))
	r.Header.Set("Content-Type", mediaForm)
	r.RemoteAddr = "127.0.0.1:40000"
	s.router.ServeHTTP(w, r)
	if w.Code != statusClientGone || strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("status %d, log %s", w.Code, s.log)
	}
}
