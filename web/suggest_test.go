package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

func TestTakenAliasAnswerContainsSuggestions(t *testing.T) {
	withClockStopped(t, func(t *testing.T) {
		s := newSite(t, nil)
		for _, alias := range []string{"mine", "mine-2", "mine-4"} {
			s.shorten(t, `{"url":"https://go.dev","alias":"`+alias+`"}`)
		}
		r := s.do(t, http.MethodPost, "/shorten", `{"url":"https://example.com","alias":"mine"}`, "Content-Type", media.JSON)
		p := decode[reply.Problem](t, r.body)
		if r.status != http.StatusConflict || len(p.Suggestions) != 3 || p.Suggestions[0] != "mine-3" {
			t.Fatalf("status %d (want 409), %s", r.status, r.body)
		}
		for _, free := range p.Suggestions {
			s.shorten(t, `{"url":"https://example.com","alias":"`+free+`"}`)
		}
		// Other problems have no suggestions.
		other := s.do(t, http.MethodPost, "/shorten", `{"url":"nothing","alias":"mine"}`, "Content-Type", media.JSON)
		if strings.Contains(other.body, "suggestions") {
			t.Errorf("the answer is %s", other.body)
		}
	})
}

// While look-ups fail, the answer to a taken alias has no suggestions. The status is still 409.
func TestTakenAliasAnswers409WithoutSuggestionsIfLookUpsFail(t *testing.T) {
	t.Parallel()
	pages := newPages(client.Limits{}, "", nil)
	p := problem.Of(problem.WithSuggestions(shortener.ErrAliasTaken, nil))
	if p.Status != http.StatusConflict || p.Suggestions != nil {
		t.Errorf("the problem is %+v", p)
	}
	v := &view{Shell: pages.shell, Form: &entered{Alias: "mine"}, Problem: &p}
	var page strings.Builder
	if err := pages.template.Execute(&page, v); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "Free aliases") {
		t.Error("the page announces suggestions that it does not have")
	}
}

// An unknown field of a form is probably a part of a URL that was not encoded, so the answer shows how to encode a URL.
func TestUnknownFormFieldErrorExplainsURLEncoding(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := s.do(t, http.MethodPost, "/shorten", "url=https://example.com/?a=1&b=2", "Content-Type", media.Form)
	p := decode[reply.Problem](t, r.body)
	if r.status != http.StatusBadRequest || !strings.HasPrefix(p.Detail, `There is no field "b".`) || !strings.Contains(p.Detail, "--data-urlencode 'url=") {
		t.Errorf("status %d (want 400), %s", r.status, r.body)
	}
	json := s.do(t, http.MethodPost, "/shorten", `{"url":"https://example.com/","b":2}`, "Content-Type", media.JSON)
	if json.status != http.StatusBadRequest || strings.Contains(json.body, "urlencode") {
		t.Errorf("the answer to JSON has status %d (want 400), %s", json.status, json.body)
	}
}

// The parameters of the home page fill the form, in which they are escaped. They create no link.
func TestHomePageParametersFillForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := s.do(t, http.MethodGet, "/?url=https%3A%2F%2Fgo.dev%2F%3Fa%3D%22%3E%3Cscript%3E&alias=mine&expires_in=24h&unknown=1", "")
	for _, want := range []string{
		`value="https://go.dev/?a=&#34;&gt;&lt;script&gt;"`, `value="mine"`, `<option value="24h" selected>`, `<details open>`,
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	if r := s.do(t, http.MethodGet, "/mine", ""); r.status != http.StatusNotFound {
		t.Errorf("the alias has status %d, want 404", r.status)
	}
	plain := s.do(t, http.MethodGet, "/", "")
	for _, want := range []string{"Keypool makes a short link", "--data-urlencode", s.url + "/shorten", "javascript:location.href=%27" + s.url + "/?url=%27"} {
		if !strings.Contains(plain.body, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	// If the Host header is not valid, the examples on the page would not work, so the page omits them.
	if r := s.do(t, http.MethodGet, "/", "", "Host", "a,b"); r.status != http.StatusOK || strings.Contains(r.body, "urlencode") || strings.Contains(r.body, "a,b") {
		t.Errorf("the page of an invalid Host has status %d (want 200), %s", r.status, r.body)
	}
}

func TestHostOfReturnsHostAndPort(t *testing.T) {
	t.Parallel()
	urls := []string{"https://go.dev/doc?a=https://x/", "HTTP://Go.dev:80", "https://go.dev?a/b", "https://go.dev#a", "https://[::1]:8/x", ""}
	var hosts []string
	for u := range slices.Values(urls) {
		hosts = append(hosts, hostOf(u))
	}
	if diff := cmp.Diff([]string{"go.dev", "Go.dev:80", "go.dev", "go.dev", "[::1]:8", ""}, hosts); diff != "" {
		t.Error(diff)
	}
}

// A page does not repeat a long value. Otherwise a client with slow connections could fill the memory with few requests.
func TestPageDoesNotRepeatLongValues(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	empty := len(s.do(t, http.MethodGet, "/", "").body)
	for _, field := range []string{"url", "alias", "expires_in"} {
		r := s.do(t, http.MethodGet, "/?"+field+"="+strings.Repeat("'", 12_000), "")
		if r.status != http.StatusOK || len(r.body) > empty+300 { // the page may show why it refuses the value
			t.Errorf("with a long value of %s: status %d and %d bytes, want 200 and about %d bytes", field, r.status, len(r.body), empty)
		}
	}
	r := s.do(t, http.MethodPost, "/shorten", "url="+strings.Repeat("'", 12_000), "Accept", browserAccept, "Content-Type", "application/x-www-form-urlencoded")
	if r.status != http.StatusUnprocessableEntity || len(r.body) > empty+1000 {
		t.Errorf("a form with a long URL: status %d and %d bytes, want 422 and about %d bytes", r.status, len(r.body), empty)
	}
	if r := s.do(t, http.MethodGet, "/?url="+strings.Repeat("a", 2048), ""); len(r.body) < empty+2048 {
		t.Errorf("a page for a URL of 2,048 bytes has %d bytes, but must contain the URL", len(r.body))
	}
}
