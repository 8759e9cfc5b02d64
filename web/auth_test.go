package web

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"keypool/internal/quota"
	"keypool/shortener/storetest"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
)

// tokenSite is a listener with tokens in a real database.
type tokenSite struct {
	*site
	tokens   token.Store
	registry *token.Registry
}

func newTokenSite(t *testing.T, l client.Limits) *tokenSite {
	t.Helper()
	return changedTokenSite(t, func(c *PublicConfig, _ *token.Registry) { c.Limits = l })
}

func changedTokenSite(t *testing.T, change func(*PublicConfig, *token.Registry)) *tokenSite {
	t.Helper()
	db := storetest.SQLite(t)
	s := &tokenSite{tokens: token.SQLite(db.Read, db.Write)}
	ignore := func(error) {}
	var err error
	s.registry, err = token.NewRegistry(t.Context(), s.tokens, token.Notes{Poll: ignore, Record: ignore}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.registry.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.site = newSite(t, func(c *PublicConfig) {
		c.Tokens = s.registry
		change(c, s.registry)
	})
	return s
}

// issue creates a token and returns it with its Authorization header.
func (s *tokenSite) issue(t *testing.T, wanted token.Token) (created token.Token, authorization string) {
	t.Helper()
	wanted.CreatedAt = time.Now()
	created, bearer, err := s.tokens.Create(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	return created, "Bearer " + bearer
}

// poll makes the service read the tokens again: the authentication of an unknown id waits for the next poll of the
// tokens. This poll also reads each earlier change.
func (s *tokenSite) poll(t *testing.T) {
	t.Helper()
	for start := time.Now(); ; {
		_, err := s.registry.Authenticate(t.Context(), "kp_00004711_"+strings.Repeat("A", 26))
		switch {
		case errors.Is(err, token.ErrUnknown):
			return
		case !errors.Is(err, token.ErrUnavailable) || time.Since(start) > patience:
			t.Fatal(err)
		}
	}
}

// post creates a link with an Authorization header.
func (s *tokenSite) post(t *testing.T, authorization string) response {
	t.Helper()
	return s.create(t, `{"url":"https://go.dev"}`, "Authorization", authorization)
}

// An invalid token is refused, even if the service permits anonymous creations.
func TestCreationWithInvalidTokenIsRefused(t *testing.T) {
	t.Parallel()
	for _, limits := range []client.Limits{{}, {TokensOnly: true}} {
		s := newTokenSite(t, limits)
		valid, authorization := s.issue(t, token.Token{Name: "valid", Scopes: token.ScopeCreate})
		_, expired := s.issue(t, token.Token{Name: "expired", Scopes: token.ScopeCreate, ExpiresAt: time.Now().Add(-time.Hour)})
		if r := s.post(t, authorization); r.status != http.StatusCreated {
			t.Fatalf("a valid token: status %d (want 201), %s", r.status, r.body)
		}
		if r := s.post(t, strings.Replace(authorization, "Bearer", "bearer", 1)); r.status != http.StatusCreated {
			t.Errorf("the scheme in lower case: status %d (want 201), %s", r.status, r.body)
		}
		if err := s.tokens.Revoke(t.Context(), valid.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		unknown := "Bearer kp_00004711_" + strings.Repeat("A", 26)
		s.poll(t)
		for header, detail := range map[string]string{
			unknown: "not known", authorization: "revoked", expired: "expired", authorization + "x": "not known",
			"Bearer": "not known", "Bearer x": "not known", "Token " + authorization: "scheme Bearer", "kp_x": "scheme Bearer",
		} {
			r := s.post(t, header)
			p := s.wantProblem(t, r, http.StatusUnauthorized, "unauthorized")
			wantHeader(t, r, "WWW-Authenticate", "Bearer")
			if !strings.Contains(p.Detail, detail) {
				t.Errorf("the detail of %q is %q, want %q in it", header, p.Detail, detail)
			}
			if secret := header[strings.LastIndex(header, "_")+1:]; len(secret) > 20 && strings.Contains(r.body+s.log.String(), secret) {
				t.Error("the answer or the log contains a secret")
			}
		}
		twice := s.create(t, `{"url":"https://go.dev"}`, "Authorization", authorization, "Authorization", authorization)
		s.wantProblem(t, twice, http.StatusUnauthorized, "unauthorized")
	}
}

// If ANONYMOUS is false, creations require a token, but redirects and previews do not.
func TestCreationsRequireTokenIfAnonymousIsFalse(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{TokensOnly: true})
	_, authorization := s.issue(t, token.Token{Name: "ci", Scopes: token.ScopeCreate})
	refused := s.create(t, `{"url":"https://go.dev"}`)
	s.wantProblem(t, refused, http.StatusUnauthorized, "unauthorized")
	wantHeader(t, refused, "WWW-Authenticate", "Bearer")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:password"))
	s.wantProblem(t, s.post(t, basic), http.StatusUnauthorized, "unauthorized")
	code := decode[answer](t, s.post(t, authorization).body).Code
	for path, status := range map[string]int{"/" + code: http.StatusFound, "/" + code + "+": http.StatusOK} {
		if r := s.do(t, http.MethodGet, path, ""); r.status != status {
			t.Errorf("GET %s without a token: status %d", path, r.status)
		}
	}
	page := s.do(t, http.MethodGet, "/", "", "Accept", media.HTML)
	if strings.Contains(page.body, "<form") || !strings.Contains(page.body, "A token is required") {
		t.Errorf("the page has a form, which a browser cannot use: %s", page.body)
	}
	html := s.do(t, http.MethodPost, "/shorten", "url=https://go.dev", "Content-Type", media.Form, "Accept", media.HTML)
	if html.status != http.StatusUnauthorized || !strings.Contains(html.body, "Only clients with a token") {
		t.Errorf("the page of a refused creation has status %d (want 401): %s", html.status, html.body)
	}
}

// A proxy in front of the service may pass on the Basic credentials that a client sent for the proxy. The service
// treats such a request as a request without a token.
func TestBasicCredentialsDoNotCountAsToken(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	if r := s.post(t, "Basic dXNlcjpwYXNzd29yZA=="); r.status != http.StatusCreated {
		t.Errorf("status %d (want 201), %s", r.status, r.body)
	}
}

func TestCreationRequiresTokenWithScopeCreate(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	for scopes, want := range map[token.Scopes]int{
		token.ScopeCreate: http.StatusCreated, token.ScopeAdmin: http.StatusCreated,
		token.ScopeRead | token.ScopeEdit: http.StatusForbidden,
	} {
		_, authorization := s.issue(t, token.Token{Name: scopes.String(), Scopes: scopes})
		r := s.post(t, authorization)
		if r.status != want {
			t.Errorf("a creation with the scopes %q: status %d, want %d", scopes, r.status, want)
		}
		if want == http.StatusForbidden {
			if p := s.wantProblem(t, r, want, "forbidden"); !strings.Contains(p.Detail, "scope create") {
				t.Errorf("the detail %q does not name the scope", p.Detail)
			}
		}
	}
}

// The limit of a token applies to all its clients together, and to no other token. The limits of anonymous
// creations do not apply to creations with a token.
func TestClientsOfOneTokenShareRateLimit(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{AnonymousRate: new(quota.Rate(1)), AnonymousMaxAge: time.Hour})
	_, limited := s.issue(t, token.Token{Name: "limited", Scopes: token.ScopeCreate, Rate: 1})
	_, other := s.issue(t, token.Token{Name: "other", Scopes: token.ScopeCreate, Rate: 100})
	_, free := s.issue(t, token.Token{Name: "free", Scopes: token.ScopeCreate, Rate: quota.Off})
	start := time.Now()
	first := s.post(t, limited)
	wantHeader(t, first, "RateLimit-Policy", `"token";q=10;w=10`)
	wantHeader(t, first, "RateLimit", `"token";r=9;t=1`)
	if a := decode[answer](t, first.body); !a.ExpiresAt.IsZero() {
		t.Errorf("ANONYMOUS_MAX_AGE applies to a token: %+v", a)
	}
	created, refused := s.createUntilRefused(t, "Authorization", limited)
	if most := 9 + regained(start, 1); created < 9 || created > most {
		t.Errorf("%d further links were created, want 9 to %d", created, most)
	}
	s.wantProblem(t, refused, http.StatusTooManyRequests, "rate-limited")
	wantHeader(t, refused, "Retry-After", "1")
	wantHeader(t, s.post(t, other), "RateLimit", `"token";r=999;t=1`)
	for range 20 {
		if r := s.post(t, free); r.status != http.StatusCreated || r.header.Get("RateLimit") != "" {
			t.Fatalf("a token without a limit: status %d (want 201), header %v", r.status, r.header)
		}
	}
	if got, want := s.metrics.Limited(), (Limited{Token: 1}); got != want {
		t.Errorf("Limited() = %+v, want %+v", got, want)
	}
}

func TestServiceWithoutTokensRefusesEveryToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := s.create(t, `{"url":"https://go.dev"}`, "Authorization", "Bearer kp_00000001_secret")
	s.wantProblem(t, r, http.StatusUnauthorized, "unauthorized")
}
