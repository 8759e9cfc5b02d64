package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

// A panic fails only its own request, and the log contains the cause.
func TestPanicFailsOnlyOneRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.router.GET("/test/panic", func(echo.Context) error { panic("with a secret") })
	s.client.Transport = s.client.Transport.(*contract).next // openapi.yaml does not list the path
	r := s.do(t, http.MethodGet, "/test/panic", "")
	if p := decode[reply.Problem](t, r.body); r.status != 500 || p.Type != reply.TypePrefix+"internal" || strings.Contains(r.body, "secret") {
		t.Errorf("the panicking request has status %d (want 500) and body %s", r.status, r.body)
	}
	if log := s.log.String(); !strings.Contains(log, "with a secret") || !strings.Contains(log, "problem_test.go") {
		t.Errorf("the log lacks the cause or the stack of the panic: %s", log)
	}
	if again := s.do(t, http.MethodGet, "/healthz", ""); again.status != http.StatusOK {
		t.Errorf("the request after the panic has status %d, want 200", again.status)
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

func TestRequestsGet503WhileStoreIsUnreachable(t *testing.T) {
	t.Parallel()
	service, _ := newService(t, func(s shortener.Store) shortener.Store { return unreachable{s} })
	s := newSite(t, func(c *PublicConfig) { c.Service = service })
	for _, r := range []response{
		s.once(t, http.MethodPost, "/shorten", "url=https://go.dev", "Content-Type", media.Form),
		s.once(t, http.MethodGet, "/abc", ""),
		s.once(t, http.MethodGet, "/healthz", ""),
	} {
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || strings.Contains(r.body, "10.9.8.7") {
			t.Errorf("the answer has status %d (want 503), header %v and body %s", r.status, r.header, r.body)
		}
	}
	if n := strings.Count(s.log.String(), "requests refused"); n != 1 {
		t.Errorf("the log has %d lines about refused requests, want one line a minute", n)
	}
}

func TestHealthzSaysThatServiceIsDegraded(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.Degraded = func() bool { return true } })
	if r := s.do(t, http.MethodGet, "/healthz", ""); r.status != http.StatusOK || r.body != "{\"status\":\"degraded\"}\n" {
		t.Errorf("/healthz has status %d (want 200) and body %q", r.status, r.body)
	}
}

// A request that its client closed is not an error of the service.
func TestRequestClosedByClientIsNotLoggedAsError(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/shorten", strings.NewReader("url=https://go.dev"))
	r.Header.Set("Content-Type", media.Form)
	r.RemoteAddr = "127.0.0.1:40000"
	s.router.ServeHTTP(w, r)
	if w.Code != problem.StatusClientGone || strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("status %d, log %s", w.Code, s.log)
	}
}
