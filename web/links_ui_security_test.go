package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"keypool/internal/quota"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
)

// form sends a form to the public listener as a browser does. If bearer is not empty, the request has the cookie of a
// session with this bearer.
func (s *uiSite) form(t *testing.T, bearer, path string, fields url.Values, headers ...string) response {
	t.Helper()
	return s.do(t, http.MethodPost, path, fields.Encode(), append(s.headers(bearer), headers...)...)
}

func (s *uiSite) headers(bearer string) []string {
	headers := []string{"Content-Type", media.Form, "Origin", s.url}
	if bearer != "" {
		headers = append(headers, "Cookie", "keypool="+bearer)
	}
	return headers
}

func (s *uiSite) get(t *testing.T, bearer, path string) response {
	t.Helper()
	return s.do(t, http.MethodGet, path, "", s.headers(bearer)...)
}

func wantPage(t *testing.T, r response, status int, parts ...string) {
	t.Helper()
	_, main, _ := strings.Cut(r.body, "<main")
	if r.status != status {
		t.Errorf("status %d, want %d: %s", r.status, status, main)
	}
	for _, part := range parts {
		if !strings.Contains(r.body, part) {
			t.Errorf("the page lacks %q: %s", part, main)
		}
	}
}

func formOf(url string) map[string][]string {
	return map[string][]string{"url": {url}, "redirect": {"302"}, "forward": {"none"}}
}

// Each of the two listeners accepts a form only if a page of the same origin sent it.
func TestUIRefusesFormsOfOtherOrigins(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	for name, tt := range map[string]struct {
		headers []string
		status  int
	}{
		"same origin":        {[]string{"Origin", s.url}, http.StatusSeeOther},
		"same origin, fetch": {[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusSeeOther},
		"no header":          {nil, http.StatusForbidden},
		"other origin":       {[]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"opaque origin":      {[]string{"Origin", "null"}, http.StatusForbidden},
		"other port":         {[]string{"Origin", "http://127.0.0.1:1"}, http.StatusForbidden},
		"cross-site":         {[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"same-site":          {[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
	} {
		headers := append([]string{"Content-Type", media.Form, "Cookie", "keypool=" + bearer}, tt.headers...)
		for path, body := range map[string]string{
			"/admin/new": url.Values(formOf("https://go.dev/")).Encode(), "/admin/sign-in": "token=" + bearer, "/admin/sign-out": "",
		} {
			if r := s.do(t, http.MethodPost, path, body, headers...); r.status != tt.status || tt.status != http.StatusSeeOther && r.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: POST %s has status %d, want %d", name, path, r.status, tt.status)
			}
		}
		if tt.status == http.StatusForbidden {
			admin := (&site{url: strings.TrimSuffix(s.admin, "/links"), client: s.client}).do(t, http.MethodPost, "/links/new", "url=https://go.dev/", headers...)
			wantPage(t, admin, http.StatusForbidden)
		}
	}
	if r := s.do(t, http.MethodGet, "/api/links", "", "Authorization", "Bearer "+bearer); strings.Count(r.body, `"code"`) != 2 {
		t.Errorf("the list does not contain exactly 2 links: %s", r.body)
	}
}

// A session is a cookie that scripts and other sites cannot use. The session ends when the token in
// the cookie is revoked.
func TestUISessionEndsWhenTokenIsRevoked(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	created, authorization := s.issue(t, token.Token{Name: "alice", Scopes: ownScopes})
	bearer := strings.TrimPrefix(authorization, "Bearer ")
	r := s.form(t, "", "/admin/sign-in", url.Values{"token": {" " + bearer + " "}, "to": {"/admin/new?url=x"}})
	wantPage(t, r, http.StatusSeeOther)
	wantHeader(t, r, "Location", "/admin/new?url=x")
	wantHeader(t, r, "Set-Cookie", "keypool="+bearer+"; Path=/admin/; Max-Age=43200; HttpOnly; SameSite=Strict")
	wantPage(t, s.get(t, bearer, "/admin/"), http.StatusOK, "Your links", "alice")

	r = s.form(t, "", "/admin/sign-in", url.Values{"token": {bearer}, "to": {"https://evil.example/"}})
	wantHeader(t, r, "Location", "/admin/")
	r = s.form(t, bearer, "/admin/sign-out", nil)
	wantHeader(t, r, "Set-Cookie", "keypool=; Path=/admin/; Max-Age=0; HttpOnly; SameSite=Strict")

	if err := s.tokens.Revoke(t.Context(), created.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	s.poll(t)
	for _, cookie := range []string{bearer, "kp_00004711_AAAA", "garbage", ""} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := s.do(t, method, "/admin/code/a?x=1", "", s.headers(cookie)...)
			wantPage(t, r, http.StatusSeeOther)
			wantHeader(t, r, "Location", "/admin/sign-in?to=%2Fadmin%2Fcode%2Fa%3Fx%3D1")
		}
		wantPage(t, s.form(t, cookie, "/admin/new", formOf("https://go.dev/")), http.StatusForbidden, "Your session has ended")
		wantPage(t, s.form(t, "", "/admin/sign-in", url.Values{"token": {cookie}}), http.StatusForbidden, "This is no valid token", `type="password"`)
	}
	if strings.Contains(s.log.String(), "kp_") {
		t.Errorf("the log contains a token: %s", s.log)
	}
}

// After a renewal, the token in the cookie has an old secret. The person signs in with the renewed token and sees the same links.
func TestUISessionEndsWhenTokenIsRenewed(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	created, authorization := s.issue(t, token.Token{Name: "alice", Scopes: ownScopes})
	former := strings.TrimPrefix(authorization, "Bearer ")
	wantPage(t, s.form(t, former, "/admin/new", formOf("https://go.dev/hers")), http.StatusSeeOther)
	bearer, err := s.tokens.Renew(t.Context(), created.ID, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	s.poll(t)
	wantPage(t, s.get(t, former, "/admin/"), http.StatusSeeOther)
	wantPage(t, s.form(t, former, "/admin/new", formOf("https://go.dev/")), http.StatusForbidden, "Your session has ended")
	wantPage(t, s.form(t, "", "/admin/sign-in", url.Values{"token": {former}}), http.StatusForbidden, "This is no valid token")
	wantPage(t, s.form(t, "", "/admin/sign-in", url.Values{"token": {bearer}}), http.StatusSeeOther)
	wantPage(t, s.get(t, bearer, "/admin/"), http.StatusOK, "Your links", "go.dev/hers")
}

// With HTTPS, the name of the cookie has a prefix, so that a subdomain cannot set the cookie. A cookie without the
// prefix is not a session.
func TestUISessionCookieOverHTTPSHasHostPrefix(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", func(c *PublicConfig) { c.BaseURL = "https://go.example" })
	bearer := s.bearer(t, "alice", ownScopes)
	https := []string{"Host", "go.example", "Content-Type", media.Form, "Origin", "https://go.example"}
	r := s.do(t, http.MethodPost, "/admin/sign-in", "token="+bearer, https...)
	wantHeader(t, r, "Set-Cookie", "__Host-keypool="+bearer+"; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict")
	wantPage(t, s.do(t, http.MethodGet, "/admin/", "", append(https, "Cookie", "__Host-keypool="+bearer)...), http.StatusOK)
	wantPage(t, s.do(t, http.MethodGet, "/admin/", "", append(https, "Cookie", "keypool="+bearer)...), http.StatusSeeOther)
}

// A person sees and changes only the links of their own token, and only as its scopes permit.
func TestUIShowsOnlyLinksOfToken(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	alice, bob := s.bearer(t, "alice", ownScopes), s.bearer(t, "bob", ownScopes)
	reader, creator, admin := s.bearer(t, "reader", token.ScopeRead), s.bearer(t, "creator", token.ScopeCreate), s.bearer(t, "root", token.ScopeAdmin)
	fields := formOf("https://go.dev/alices")
	fields["alias"], fields["editable"] = []string{"hers"}, []string{"true"}
	wantPage(t, s.form(t, alice, "/admin/new", fields), http.StatusSeeOther)
	wantPage(t, s.get(t, alice, "/admin/"), http.StatusOK, "go.dev")
	change := url.Values{"version": {"1"}, "url": {"https://evil.example/"}, "seen_url": {"https://go.dev/alices"}}
	for _, other := range []string{bob, reader} {
		for _, path := range []string{"/admin/code/hers", "/admin/code/hers/qr.png", "/admin/code/hers/qr.svg", "/admin/code/hers/delete"} {
			wantPage(t, s.get(t, other, path), http.StatusNotFound)
		}
		if r := s.get(t, other, "/admin/?state=all"); strings.Contains(r.body, "alices") {
			t.Error("the list contains the link of another token")
		}
	}
	wantPage(t, s.form(t, bob, "/admin/code/hers", change), http.StatusNotFound)
	wantPage(t, s.form(t, bob, "/admin/code/hers/delete", nil), http.StatusNotFound)
	for _, path := range []string{"/admin/code/hers", "/admin/code/hers/delete", "/admin/new"} {
		wantPage(t, s.form(t, reader, path, change), http.StatusForbidden, "does not have the scope")
	}
	wantPage(t, s.get(t, creator, "/admin/code/hers"), http.StatusForbidden, "scope read")
	list := s.get(t, creator, "/admin/?q=hers")
	wantPage(t, list, http.StatusSeeOther)
	wantHeader(t, list, "Location", "/admin/new")
	wantPage(t, s.form(t, creator, "/admin/new", formOf("https://go.dev/created")), http.StatusOK, "Your short link", "The link is created.")
	redirects(t, s.site, s.url+"/hers", "https://go.dev/alices")

	wantPage(t, s.get(t, admin, "/admin/"), http.StatusOK, "alices", "alice", "creator")
	wantPage(t, s.form(t, admin, "/admin/code/hers", change), http.StatusSeeOther)
	redirects(t, s.site, s.url+"/hers", "https://evil.example/")
	wantPage(t, s.form(t, alice, "/admin/code/hers/delete", nil), http.StatusSeeOther)
	wantPage(t, s.get(t, alice, "/admin/code/hers"), http.StatusOK, "never used again")
}

// The header with the name of a person is used only if it comes from a trusted proxy.
func TestUIAcceptsUserHeaderOnlyFromTrustedProxy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		proxy  string
		names  []string
		status int
		says   string
	}{
		"trusted proxy":                 {"127.0.0.0/8", []string{"alice"}, http.StatusOK, "Your links"},
		"sender that is not a proxy":    {"10.0.0.0/8", []string{"alice"}, http.StatusForbidden, "Only the proxy"},
		"no name":                       {"127.0.0.0/8", nil, http.StatusForbidden, "must send exactly one header"},
		"empty name":                    {"127.0.0.0/8", []string{""}, http.StatusForbidden, "must send exactly one header"},
		"two names":                     {"127.0.0.0/8", []string{"alice", "root"}, http.StatusForbidden, "must send exactly one header"},
		"name that no token has":        {"127.0.0.0/8", []string{"$(id)"}, http.StatusForbidden, "shortener token create --name=&#39;$(id)&#39; --scope=create,read,edit"},
		"name of a revoked token":       {"127.0.0.0/8", []string{"dave"}, http.StatusForbidden, "No valid token has the name"},
		"name of an expired token":      {"127.0.0.0/8", []string{"erin"}, http.StatusForbidden, "has expired. The operator of this service renews it"},
		"two names in one header value": {"127.0.0.0/8", []string{"alice,root"}, http.StatusForbidden, "No valid token has the name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newUISite(t, "X-Person", func(c *PublicConfig) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(tt.proxy)} })
			s.bearer(t, "alice", ownScopes)
			dave, _ := s.issue(t, token.Token{Name: "dave", Scopes: ownScopes})
			s.issue(t, token.Token{Name: "erin", Scopes: ownScopes, ExpiresAt: time.Now()})
			if err := s.tokens.Revoke(t.Context(), dave.ID, time.Now()); err != nil {
				t.Fatal(err)
			}
			s.poll(t)
			var headers []string
			for _, name := range tt.names {
				headers = append(headers, "X-Person", name)
			}
			wantPage(t, s.do(t, http.MethodGet, "/admin/", "", append(headers, "Remote-User", "root", "Cookie", "keypool=x")...), tt.status, tt.says)
			wantPage(t, s.do(t, http.MethodGet, "/admin/sign-in", "", headers...), http.StatusNotFound)
			created := s.do(t, http.MethodPost, "/admin/new", url.Values(formOf("https://go.dev/")).Encode(), append(headers, "Content-Type", media.Form, "Origin", s.url)...)
			if (created.status == http.StatusSeeOther) != (tt.status == http.StatusOK) {
				t.Errorf("a creation has status %d", created.status)
			}
		})
	}
}

// The rate limit of a token applies to the person who uses the token. Failed sign-ins count as misses of
// the address.
func TestUIAppliesRateLimitAndMissLimiter(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", func(c *PublicConfig) { c.Limits = client.Limits{MissRate: 1, MissBurst: 3} })
	_, authorization := s.issue(t, token.Token{Name: "alice", Scopes: ownScopes, Rate: quota.Rate(1)})
	bearer := strings.TrimPrefix(authorization, "Bearer ")
	var last response
	for i := range 1000 {
		if last = s.form(t, bearer, "/admin/new", formOf(fmt.Sprintf("https://go.dev/%d", i))); last.status != http.StatusSeeOther {
			break
		}
	}
	wantPage(t, last, http.StatusTooManyRequests, "You created too many links", `value="https://go.dev/`)
	if last.header.Get("Retry-After") == "" {
		t.Error("the answer has no Retry-After")
	}
	// The client may regain a miss between the refusal of a wrong token and the sign-in with the valid token.
	for range 1000 {
		if last = s.form(t, "", "/admin/sign-in", url.Values{"token": {"wrong"}}); last.status == http.StatusForbidden {
			continue
		}
		wantPage(t, last, http.StatusTooManyRequests)
		if last = s.form(t, "", "/admin/sign-in", url.Values{"token": {bearer}}); last.status != http.StatusSeeOther {
			break
		}
	}
	wantPage(t, last, http.StatusTooManyRequests)
}

// An alias that belongs to another link counts as a miss. An address that has used up its misses cannot choose an
// alias, but it can still create links with keys.
func TestUICountsTakenAliasAsMiss(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", func(c *PublicConfig) { c.Limits = client.Limits{MissRate: 1, MissBurst: 3} })
	bearer := s.bearer(t, "alice", ownScopes)
	fields := func(url, alias string) url.Values {
		f := formOf(url)
		f["alias"] = []string{alias}
		return f
	}
	wantPage(t, s.form(t, bearer, "/admin/new", fields("https://go.dev/", "taken")), http.StatusSeeOther)
	var last response
	for range 100 {
		if last = s.form(t, bearer, "/admin/new", fields("https://go.dev/other", "taken")); last.status != http.StatusConflict {
			break
		}
	}
	wantPage(t, last, http.StatusTooManyRequests, "Your IP address requested too many")
	wantPage(t, s.form(t, bearer, "/admin/new", fields("https://go.dev/", "")), http.StatusSeeOther)
}

// The pages show visits only to a person who may read these visits over the API.
func TestUIShowsVisitsOnlyToPersonWhoMayReadThem(t *testing.T) {
	t.Parallel()
	counted := newVisits(t)
	s := newUISite(t, "", func(c *PublicConfig) { c.Visits = counted })
	for scopes, shown := range map[token.Scopes]bool{
		token.ScopeCreate | token.ScopeEdit: false, token.ScopeCreate | token.ScopeRead: true, token.ScopeAdmin: true,
	} {
		o := s.owner(t, scopes.String(), scopes)
		link := decode[answer](t, o.send(t, http.MethodPost, "/shorten", `{"url":"https://go.dev/"}`).body)
		page := s.get(t, strings.TrimPrefix(o.authorization, "Bearer "), "/admin/code/"+link.Code)
		if page.status != http.StatusOK || strings.Contains(page.body, "No visits in the last 30 days") != shown {
			t.Errorf("the page for the scopes %v has status %d and the visits: %v, want %v", scopes, page.status, !shown, shown)
		}
		if r := o.send(t, http.MethodGet, "/api/links/"+link.Code+"/visits", ""); (r.status == http.StatusOK) != shown {
			t.Errorf("the API answers the scopes %v with status %d", scopes, r.status)
		}
	}
}

// The list can be filtered by each state that the API has. If the address of the list lacks the final slash, a
// redirect adds the slash and keeps the query.
func TestUILinkListFiltersByState(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	admin := &site{url: strings.TrimSuffix(s.admin, "/links"), client: s.client}
	for _, state := range []string{"", "active", "expired", "deleted", "all"} {
		wantPage(t, s.get(t, bearer, "/admin/?state="+state), http.StatusOK, "Your links")
	}
	for _, state := range []string{"foo", "Active"} {
		wantPage(t, s.get(t, bearer, "/admin/?state="+state), http.StatusBadRequest, "The states are active, expired, deleted and all.")
		wantPage(t, admin.do(t, http.MethodGet, "/links/?state="+state, ""), http.StatusBadRequest, "The states are")
	}
	for query, want := range map[string]string{"": "/", "?q=a%2Fb&state=all": "/?q=a%2Fb&state=all"} {
		wantHeader(t, s.get(t, bearer, "/admin"+query), "Location", "/admin"+want)
		wantHeader(t, admin.do(t, http.MethodGet, "/links"+query, ""), "Location", "/links"+want)
	}
}

// A page cannot be framed or cached, and its Content-Security-Policy has no unsafe keyword such as 'unsafe-inline'.
// Without the setting UI, there are no pages.
func TestUIPagesCannotBeFramedOrCached(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	for _, path := range []string{"/admin/", "/admin/sign-in", "/admin/code/none", "/admin/none"} {
		r := s.get(t, bearer, path)
		wantHeader(t, r, "Cache-Control", "no-store")
		wantHeader(t, r, "X-Frame-Options", "DENY")
		wantHeader(t, r, "Referrer-Policy", "same-origin") // with no-referrer, browsers would send Origin: null with forms
		if policy := r.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy of %s is %s", path, policy)
		}
	}
	off := newSite(t, nil)
	for _, path := range []string{"/admin", "/admin/", "/admin/sign-in"} {
		if r := off.do(t, http.MethodGet, path, ""); r.status != http.StatusNotFound {
			t.Errorf("without pages, GET %s has status %d, want 404", path, r.status)
		}
	}
}

// If BASE_URL is set, the pages answer only requests for the host of BASE_URL.
func TestUIRefusesRequestsForOtherHosts(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", func(c *PublicConfig) { c.BaseURL = "https://go.test" })
	for host, want := range map[string]int{"go.test": 200, "GO.test.": 200, "go.test:8080": 200, "evil.example": 421, "127.0.0.1": 421} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/admin/sign-in", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("Host %s: status %d, want %d", host, response.StatusCode, want)
		}
	}
}

// Without BASE_URL, the pages refuse a request whose Host header is not a host of a URL. Otherwise the service could not
// recognise a link that leads back to it.
func TestUIRefusesHostHeaderThatNamesNoHost(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	headers := append(s.headers(s.bearer(t, "alice", ownScopes)), "Host", "a,b", "Sec-Fetch-Site", "same-origin")
	body := url.Values(formOf(s.url + "/loop")).Encode()
	for method, path := range map[string]string{http.MethodGet: "/admin/", http.MethodPost: "/admin/new"} {
		wantPage(t, s.do(t, method, path, body, headers...), http.StatusBadRequest, "The Host header does not name a host")
	}
}
