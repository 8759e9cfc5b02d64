package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

const everyScope = token.ScopeCreate | token.ScopeRead | token.ScopeEdit

// owner is a client with a token.
type owner struct {
	*tokenSite
	authorization string
}

func (s *tokenSite) owner(t *testing.T, name string, scopes token.Scopes) owner {
	t.Helper()
	_, authorization := s.issue(t, token.Token{Name: name, Scopes: scopes})
	return owner{s, authorization}
}

// send sends a request with the token.
func (o owner) send(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	if body != "" {
		headers = append(headers, "Content-Type", media.JSON)
	}
	return o.do(t, method, path, body, append(headers, "Authorization", o.authorization)...)
}

// want sends a request and returns the link of the answer. The answer must have the given status.
func (o owner) want(t *testing.T, status int, method, path, body string, headers ...string) (l fullLink) {
	t.Helper()
	r := o.send(t, method, path, body, headers...)
	if r.status != status && (status != http.StatusCreated || !r.created()) {
		t.Fatalf("%s %s %s: status %d, want %d: %s", method, path, body, r.status, status, r.body)
	}
	if status >= http.StatusBadRequest || status == http.StatusNoContent {
		return l
	}
	if err := json.Unmarshal([]byte(r.body), &l); err != nil {
		t.Fatal(err)
	}
	if tag := r.header.Get("ETag"); tag != fmt.Sprintf(`"%d"`, l.Version) {
		t.Errorf("%s %s: the ETag is %s, want the version %d", method, path, tag, l.Version)
	}
	return l
}

// location returns the status of the answer to a request for path, and the URL to which it redirects.
func (s *site) location(t *testing.T, path string) string {
	t.Helper()
	r := s.do(t, http.MethodGet, path, "")
	return fmt.Sprint(r.status, " ", r.header.Get("Location"))
}

func TestOwnerCanChangeLink(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	created := o.want(t, http.StatusCreated, http.MethodPost, "/shorten",
		`{"url":"https://one.example/","title":" One ","tags":["a","b","a"],"editable":true,"redirect":307,"forward":"query"}`)
	want := fullLink{
		answer: created.answer, Title: "One", Tags: []string{"a", "b"}, Owner: "docs",
	}
	want.Editable, want.Version, want.Redirect, want.Forward = true, 1, 307, shortener.ForwardQuery
	if diff := cmp.Diff(want, created, cmp.AllowUnexported(fullLink{})); diff != "" {
		t.Errorf("the created link (-want +got):\n%s", diff)
	}
	if got := o.location(t, "/"+created.Code+"?x=1"); got != "307 https://one.example/?x=1" {
		t.Errorf("the link leads to %s, want status 307 and https://one.example/?x=1", got)
	}

	path := "/api/links/" + created.Code
	changed := o.want(t, http.StatusOK, http.MethodPatch, path,
		`{"url":"https://two.example/","title":null,"tags":null,"redirect":null,"forward":null,"expires_at":"2100-01-01T00:00:00Z"}`,
		"If-Match", `"7", "1"`)
	want = fullLink{answer: created.answer, Owner: "docs", ChangedAt: changed.ChangedAt}
	want.Version, want.Redirect, want.Forward = 2, 302, shortener.ForwardNone
	want.URL, want.ExpiresAt = "https://two.example/", changed.ExpiresAt
	if diff := cmp.Diff(want, changed, cmp.AllowUnexported(fullLink{})); diff != "" {
		t.Errorf("the changed link (-want +got):\n%s", diff)
	}
	if changed.ExpiresAt.Year() != 2100 || changed.ChangedAt.Before(created.CreatedAt) {
		t.Errorf("the changed link expires at %v, want the year 2100; it changed at %v, want a time after its creation",
			changed.ExpiresAt, changed.ChangedAt)
	}
	if got := o.location(t, "/"+created.Code); got != "302 https://two.example/" {
		t.Errorf("the changed link leads to %s, want status 302 and https://two.example/", got)
	}
	if l := o.want(t, http.StatusOK, http.MethodPatch, path, `{"expires_at":null}`); !l.ExpiresAt.IsZero() {
		t.Errorf("the link expires at %v, want no expiry", l.ExpiresAt)
	}
	before := o.want(t, http.StatusOK, http.MethodGet, path, "")
	for _, same := range []string{`{}`, `{"url":"https://two.example/","tags":[],"title":"","redirect":302,"expires_at":null}`} {
		after := o.want(t, http.StatusOK, http.MethodPatch, path, same)
		if diff := cmp.Diff(before, after, cmp.AllowUnexported(fullLink{})); diff != "" {
			t.Errorf("the patch %s repeats the values of the link, but the link changed:\n%s", same, diff)
		}
	}
}

func TestInvalidChangesAreRefused(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	o := s.owner(t, "docs", everyScope)
	fixed := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	path := "/api/links/" + fixed.Code
	for _, test := range []struct {
		body    string
		status  int
		problem string
		headers []string
	}{
		{`{"url":"https://two.example/"}`, 409, "fixed-link", nil},
		{`{"url":null}`, 422, "invalid-field", nil},
		{`{"url":"ftp://two.example/"}`, 422, "invalid-field", nil},
		{`{"title":"` + strings.Repeat("x", 201) + `"}`, 422, "invalid-field", nil},
		{`{"title":"a\nb"}`, 422, "invalid-field", nil},
		{`{"title":7}`, 422, "invalid-field", nil},
		{`{"title":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, 400, "malformed", nil},
		{`{"tags":["a|b"]}`, 422, "invalid-field", nil},
		{`{"tags":[""]}`, 422, "invalid-field", nil},
		{`{"tags":["a",7]}`, 422, "invalid-field", nil},
		{`{"tags":"a"}`, 422, "invalid-field", nil},
		{`{"tags":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, 422, "invalid-field", nil},
		{`{"redirect":303}`, 422, "invalid-field", nil},
		{`{"redirect":"302"}`, 422, "invalid-field", nil},
		{`{"redirect":0}`, 422, "invalid-field", nil},
		{`{"forward":""}`, 422, "invalid-field", nil},
		{`{"forward":"path"}`, 422, "invalid-field", nil},
		{`{"expires_at":""}`, 422, "invalid-field", nil},
		{`{"expires_at":"2001-01-01T00:00:00Z"}`, 422, "invalid-field", nil},
		{`{"code":"x"}`, 400, "malformed", nil},
		{`{"editable":true}`, 400, "malformed", nil},
		{`null`, 400, "malformed", nil},
		{`{`, 400, "malformed", nil},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `"2"`}},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `W/"1"`}},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `"01"`}},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `"x"`}},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `,"3",`}},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `"9",,"3"`}},
		{`{}`, 412, "version-mismatch", []string{"If-Match", `"a,b" , "3"`}},
		{`{}`, 400, "malformed", []string{"If-Match", `1`}},
		{`{}`, 400, "malformed", []string{"If-Match", ``}},
		{`{}`, 400, "malformed", []string{"If-Match", `,`}},
		{`{}`, 400, "malformed", []string{"If-Match", `*, "1"`}},
		{`{}`, 400, "malformed", []string{"If-Match", `"1", *`}},
		{`{}`, 400, "malformed", []string{"If-Match", `"9" "1"`}},
		{`{}`, 400, "malformed", []string{"If-Match", `"9`}},
	} {
		r := o.send(t, http.MethodPatch, path, test.body, test.headers...)
		var p reply.Problem
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != test.status || p.Type != reply.TypePrefix+test.problem {
			t.Errorf("PATCH %s %v: status %d, %s, want %d and %s", test.body, test.headers, r.status, r.body, test.status, test.problem)
		}
	}
	if r := o.do(t, http.MethodPatch, path, `{}`, "Content-Type", "text/plain", "Authorization", o.authorization); r.status != 415 ||
		r.header.Get("Accept-Patch") != media.MergePatch {
		t.Errorf("PATCH of text: status %d, Accept-Patch %q", r.status, r.header.Get("Accept-Patch"))
	}
	if l := o.want(t, http.StatusOK, http.MethodGet, path, ""); l.Version != 1 {
		t.Errorf("the link has version %d after the refused changes, want 1", l.Version)
	}
}

func TestOwnerCanDeleteLink(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	created := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	path := "/api/links/" + created.Code
	o.want(t, http.StatusPreconditionFailed, http.MethodDelete, path, "", "If-Match", `"2"`)
	for range 2 {
		o.want(t, http.StatusNoContent, http.MethodDelete, path, "", "If-Match", `"1"`)
	}
	if l := o.want(t, http.StatusOK, http.MethodGet, path, ""); l.DeletedAt.IsZero() || l.Version != 2 {
		t.Errorf("the deleted link is %+v, want a time of deletion and version 2", l)
	}
	if r := o.do(t, http.MethodGet, "/"+created.Code, ""); r.status != http.StatusGone {
		t.Errorf("a deleted link: status %d, want 410", r.status)
	}
	o.want(t, http.StatusGone, http.MethodPatch, path, `{"title":"x"}`)
	o.want(t, http.StatusConflict, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"`+created.Code+`"}`)
}

// A link of another token looks like a link that does not exist.
func TestLinksOfOtherOwnersAreHidden(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	mine, other := s.owner(t, "mine", everyScope), s.owner(t, "other", everyScope)
	admin, reader := s.owner(t, "admin", token.ScopeAdmin), s.owner(t, "reader", token.ScopeRead)
	link := mine.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","editable":true}`)
	anonymous := s.shorten(t, `{"url":"https://go.dev"}`)
	path := "/api/links/" + link.Code
	for _, stranger := range []owner{other, reader} {
		unknown := stranger.send(t, http.MethodGet, "/api/links/unknown", "")
		if r := stranger.send(t, http.MethodGet, path, ""); r.status != 404 || r.body != unknown.body {
			t.Errorf("GET of a link of another token: %d %s, want %s", r.status, r.body, unknown.body)
		}
	}
	other.want(t, http.StatusNotFound, http.MethodPatch, path, `{"title":"x"}`)
	other.want(t, http.StatusNotFound, http.MethodDelete, path, "")
	mine.want(t, http.StatusNotFound, http.MethodDelete, "/api/links/"+anonymous.Code, "")
	reader.want(t, http.StatusForbidden, http.MethodPatch, path, `{"title":"x"}`)
	reader.want(t, http.StatusForbidden, http.MethodDelete, path, "")
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		if r := s.do(t, method, path, ""); r.status != http.StatusUnauthorized {
			t.Errorf("%s without a token: status %d, want 401", method, r.status)
		}
	}
	admin.want(t, http.StatusOK, http.MethodPatch, path, `{"url":"https://two.example/"}`)
	if l := admin.want(t, http.StatusOK, http.MethodPatch, "/api/links/"+anonymous.Code, `{"title":"x"}`); l.Owner != "" || l.Version != 2 {
		t.Errorf("the anonymous link after a change is %+v", l)
	}
	admin.want(t, http.StatusConflict, http.MethodPatch, "/api/links/"+anonymous.Code, `{"url":"https://two.example/"}`)
	admin.want(t, http.StatusNoContent, http.MethodDelete, path, "")
}

// An anonymous creation with the alias and the URL of an existing fixed link gets this link, without the details for its
// owner. If the existing link is editable, the creation fails, because the URL of the existing link may change. A creation
// with another token, or with other details, also fails.
func TestCreationWithExistingAliasRevealsNoOwnerDetails(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	mine, other := s.owner(t, "mine", everyScope), s.owner(t, "other", everyScope)
	mine.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"fixed","title":"secret"}`)
	mine.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"open","editable":true}`)
	mine.want(t, http.StatusOK, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"fixed","title":"secret"}`)
	mine.want(t, http.StatusConflict, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"fixed","title":"other"}`)
	other.want(t, http.StatusConflict, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"fixed"}`)
	if r := s.create(t, `{"url":"https://one.example/","alias":"fixed"}`); r.status != http.StatusOK || strings.Contains(r.body, "secret") {
		t.Errorf("an anonymous creation of the same alias: %d %s", r.status, r.body)
	}
	if r := s.create(t, `{"url":"https://one.example/","alias":"open"}`); r.status != http.StatusConflict {
		t.Errorf("an anonymous creation of the alias of an editable link: %d %s", r.status, r.body)
	}
}

func TestMembersOfOwnedLinksRequireToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, member := range []string{
		`"title":"x"`, `"title":""`, `"tags":["x"]`, `"tags":[]`, `"editable":true`, `"editable":false`,
		`"redirect":301`, `"redirect":302`, `"forward":"query"`, `"forward":"none"`,
	} {
		if r := s.create(t, `{"url":"https://go.dev",`+member+`}`); r.status != http.StatusUnauthorized {
			t.Errorf("%s without a token: status %d (want 401), %s", member, r.status, r.body)
		}
	}
}

func TestFormWithTokenCreatesOwnedLink(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	r := o.do(t, http.MethodPost, "/shorten", "url=https%3A%2F%2Fgo.dev&title=T&tags=a&tags=&tags=b&editable=true&redirect=308&forward=query%2Bpath&alias=",
		"Content-Type", media.Form, "Authorization", o.authorization)
	var l fullLink
	if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.status != http.StatusCreated {
		t.Fatalf("status %d (want 201): %s", r.status, r.body)
	}
	if l.Title != "T" || !cmp.Equal(l.Tags, []string{"a", "b"}) || !l.Editable || l.Redirect != 308 || l.Forward != shortener.ForwardQueryAndPath {
		t.Errorf("the link is %s", r.body)
	}
}

// list returns the codes of a page and its next cursor.
func (o owner) list(t *testing.T, query string) (codes []string, next string) {
	t.Helper()
	r := o.send(t, http.MethodGet, "/api/links"+query, "")
	var page listPage
	if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != http.StatusOK {
		t.Fatalf("GET %s: status %d (want 200), %s", query, r.status, r.body)
	}
	for _, l := range page.Links {
		codes = append(codes, l.Code)
	}
	return codes, page.Next
}

func TestLinkListIsFilteredAndDividedIntoPages(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	o, admin := s.owner(t, "docs", everyScope), s.owner(t, "admin", token.ScopeAdmin)
	s.shorten(t, `{"url":"https://go.dev","alias":"anonymous"}`)
	for _, body := range []string{
		`{"url":"https://one.example/path","alias":"l-0","title":"Große Liste","tags":["x","y"]}`,
		`{"url":"https://ONE.example:8443/","alias":"l1x","tags":["y"]}`,
		`{"url":"https://two.example/?q=Path","alias":"l2x","expires_at":"2100-01-01T00:00:00Z"}`,
		`{"url":"https://three.example/","alias":"l-3"}`,
	} {
		o.want(t, http.StatusCreated, http.MethodPost, "/shorten", body)
	}
	o.want(t, http.StatusNoContent, http.MethodDelete, "/api/links/l-3", "")
	for query, want := range map[string][]string{
		"":                      {"l2x", "l1x", "l-0"},
		"?state=deleted":        {"l-3"},
		"?state=expired":        nil,
		"?state=all":            {"l-3", "l2x", "l1x", "l-0"},
		"?q=PATH":               {"l2x", "l-0"},
		"?q=gro%C3%9Fe":         {"l-0"},
		"?q=1X":                 {"l1x"},
		"?tag=y":                {"l1x", "l-0"},
		"?tag=Y":                nil,
		"?host=one.example":     {"l1x", "l-0"},
		"?host=example":         nil,
		"?tag=x&q=l":            {"l-0"},
		"?q=none&limit=1":       nil,
		"?limit=1000&state=all": {"l-3", "l2x", "l1x", "l-0"},
	} {
		if got, next := o.list(t, query); !cmp.Equal(got, want) || next != "" {
			t.Errorf("the list %s is %v, next %q, want %v", query, got, next, want)
		}
	}
	var paged []string
	for query := "?state=all&limit=1"; ; {
		page, next := admin.list(t, query)
		paged = append(paged, page...)
		if next == "" {
			break
		}
		query = "?state=all&limit=1&cursor=" + next
	}
	if want := []string{"l-3", "l2x", "l1x", "l-0", "anonymous"}; !cmp.Equal(paged, want) {
		t.Errorf("the pages of all links are %v, want %v", paged, want)
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?state=x", "?cursor=x", "?x=1", "?q=a&q=b", "?q=%zz", "?q=%ff", "?host=https://one.example"} {
		if r := o.send(t, http.MethodGet, "/api/links"+query, ""); r.status != http.StatusBadRequest {
			t.Errorf("GET %s: status %d, want 400: %s", query, r.status, r.body)
		}
	}
}

func TestLinkStreamContainsAllLinks(t *testing.T) {
	t.Parallel()
	site := newTokenSite(t, client.Limits{})
	tok, authorization := site.issue(t, token.Token{Name: "docs", Scopes: everyScope})
	o := owner{site, authorization}
	const n = 1203 // more links than fit on a page
	links := make([]shortener.Link, n)
	for i := range links {
		links[i] = shortener.Link{
			Code: fmt.Sprintf("code%d", i), URL: fmt.Sprintf("https://h.example/%d", i), Source: "pool", CreatedAt: time.UnixMicro(int64(i)).UTC(),
			Details: &shortener.Details{Owner: tok.ID, Version: 1, Title: `a "quoted", title`},
		}
	}
	if _, err := site.store.Insert(t.Context(), links); err != nil {
		t.Fatal(err)
	}
	r := o.send(t, http.MethodGet, "/api/links", "", "Accept", media.NDJSON)
	lines := strings.Split(strings.TrimSuffix(r.body, "\n"), "\n")
	if len(lines) != n || r.header.Get("Content-Type") != media.NDJSON {
		t.Fatalf("%d lines of %s, want %d", len(lines), r.header.Get("Content-Type"), n)
	}
	var first fullLink
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.URL != fmt.Sprintf("https://h.example/%d", n-1) {
		t.Errorf("the first line is %s", lines[0])
	}
	r = o.send(t, http.MethodGet, "/api/links", "", "Accept", media.CSV)
	records, err := csv.NewReader(strings.NewReader(r.body)).ReadAll()
	if err != nil || len(records) != n+1 || records[0][0] != "code" || records[1][0] != first.Code || records[1][5] != first.Title {
		t.Errorf("%d records, error %v", len(records), err)
	}
	if r := o.send(t, http.MethodGet, "/api/links?limit=1", "", "Accept", media.CSV); r.status != http.StatusBadRequest {
		t.Errorf("a stream with a limit: status %d, want 400", r.status)
	}
}

func TestPreviewSaysWhetherALinkMayChange(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"fixed"}`)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"open","title":"secret","editable":true}`)
	page := func(code string) string { return o.do(t, http.MethodGet, "/"+code+"+", "", "Accept", media.HTML).body }
	if !strings.Contains(page("fixed"), "This link is fixed") {
		t.Error("the preview of a fixed link does not say that it is fixed")
	}
	o.want(t, http.StatusOK, http.MethodPatch, "/api/links/open", `{"title":"still secret"}`) // no change of the destination
	if !strings.Contains(page("open"), "The destination has not changed") {
		t.Error("the preview of an editable link does not say that it may change")
	}
	changed := o.want(t, http.StatusOK, http.MethodPatch, "/api/links/open", `{"url":"https://two.example/"}`)
	later := o.want(t, http.StatusOK, http.MethodPatch, "/api/links/open", `{"title":"secret again"}`)
	if !later.ChangedAt.After(changed.ChangedAt) {
		t.Fatalf("the destination changed at %v and then the title at %v, want a later time for the title", changed.ChangedAt, later.ChangedAt)
	}
	if p := page("open"); !strings.Contains(p, "The destination last changed on") || strings.Contains(p, later.ChangedAt.Format(time.RFC3339Nano)) {
		t.Error("the preview of a changed link does not say when its destination changed")
	}
	r := o.do(t, http.MethodGet, "/open+", "")
	var v preview
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || !v.Editable || !v.ChangedAt.Equal(changed.ChangedAt) || strings.Contains(r.body, "secret") {
		t.Errorf("the preview is %s, want the time at which the destination changed and nothing secret", r.body)
	}
}

// The preview shows everyone when the destination changed. It does not show when the owner changed something else.
func TestPreviewSaysWhenTheDestinationChanged(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"open","editable":true}`)
	var moved time.Time // last change of the destination
	for _, patch := range []string{
		`{"title":"secret"}`, `{"url":"https://two.example/"}`, `{"title":"still secret"}`, `{"tags":["secret"]}`,
		`{"expires_at":"2100-01-01T00:00:00Z"}`, `{"redirect":307}`, `{"url":"https://one.example/"}`, `{"title":null}`,
	} {
		changed := o.want(t, http.StatusOK, http.MethodPatch, "/api/links/open", patch)
		if strings.Contains(patch, "url") {
			moved = changed.ChangedAt
		}
		r := o.do(t, http.MethodGet, "/open+", "")
		var v preview
		if err := json.Unmarshal([]byte(r.body), &v); err != nil || !v.ChangedAt.Equal(moved) || strings.Contains(r.body, "secret") {
			t.Errorf("after the change %s the preview is %s, want changed_at %v", patch, r.body, moved)
		}
		if moved.IsZero() == strings.Contains(r.body, "changed_at") {
			t.Errorf("after the change %s the preview is %s, want changed_at only after a change of the destination", patch, r.body)
		}
		want := "The destination has not changed since the link was created."
		if !moved.IsZero() {
			want = `The destination last changed on <time datetime="` + moved.Format(time.RFC3339) + `">`
		}
		if p := o.do(t, http.MethodGet, "/open+", "", "Accept", media.HTML).body; !strings.Contains(p, want) || strings.Contains(p, "secret") {
			t.Errorf("after the change %s the page of the preview does not contain %s:\n%s", patch, want, p)
		}
	}
}

// Earlier releases of Keypool recorded only the time of the last change, whichever member changed. If the URL of a
// link has changed and only the time of its last change is known, the preview shows this time.
func TestPreviewShowsTimeOfChangeThatEarlierReleaseRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.insert(t, shortener.Link{
		Code: "old", URL: "https://two.example/", Source: shortener.SourceAlias, CreatedAt: time.UnixMicro(0).UTC(),
		Details: &shortener.Details{Version: 3, Editable: true, ChangedAt: time.UnixMicro(1).UTC(), FirstURL: "https://one.example/"},
	})
	if p := s.do(t, http.MethodGet, "/old+", "", "Accept", media.HTML); !strings.Contains(p.body, "The destination last changed on") {
		t.Errorf("the preview does not say that the destination changed: %s", p.body)
	}
	if r := s.do(t, http.MethodGet, "/old+", ""); !strings.Contains(r.body, `"changed_at":"1970-01-01T00:00:00.000001Z"`) {
		t.Errorf("the preview does not contain the time of the change: %s", r.body)
	}
}

func TestChangeOfURLToBlockedHostOrToKeypoolIsRefused(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	o := s.owner(t, "docs", everyScope)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","alias":"open","editable":true}`)
	blocked := new(destination.Hosts)
	if !blocked.Add("blocked.example") {
		t.Fatal("the host is not valid")
	}
	s.service.Block(blocked)
	r := o.send(t, http.MethodPatch, "/api/links/open", `{"url":"https://www.blocked.example/"}`)
	if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "blocked-destination") {
		t.Errorf("a change to a blocked host: status %d (want 422), %s", r.status, r.body)
	}
	r = o.send(t, http.MethodPatch, "/api/links/open", `{"url":"`+s.url+`/x"}`)
	if r.status != http.StatusUnprocessableEntity {
		t.Errorf("a change to this service: status %d (want 422), %s", r.status, r.body)
	}
}
