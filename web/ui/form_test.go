package ui

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"keypool/shortener/service"
	"keypool/shortener/token"
)

type noTokens struct{}

func (noTokens) Name(int64) string    { return "" }
func (noTokens) Valid() []token.Token { return nil }
func (noTokens) Authenticate(context.Context, string) (token.Token, error) {
	return token.Token{}, token.ErrUnknown
}

// A field that the person did not change gets the stored value. A field that the person changed keeps the typed value. If
// another request changed the field to a different value, the form shows the stored value beside it.
func TestUnchangedFieldGetsStoredValueAndChangedFieldKeepsTypedValue(t *testing.T) {
	t.Parallel()
	seen := values{"url": "u", "title": "t", "tags": "a", "redirect": "302", "forward": "none"}
	typed := values{"url": "u", "title": "mine", "tags": "mine", "redirect": "301", "forward": "none"}
	stored := values{"url": "theirs", "title": "theirs", "tags": "a", "redirect": "301", "forward": "none"}
	shown, others := merge(typed, seen, stored)
	if want := (values{"url": "theirs", "title": "mine", "tags": "mine", "redirect": "301", "forward": "none"}); !maps.Equal(shown, want) {
		t.Errorf("the form shows %v, want %v", shown, want)
	}
	if want := (values{"title": "theirs"}); !maps.Equal(others, want) {
		t.Errorf("the form shows the stored values %v, want %v", others, want)
	}
	if seen["title"] != "t" || stored["title"] != "theirs" {
		t.Error("merge changed its arguments")
	}
}

// The text beside a field shows the stored value in a format for people.
func TestFormShowsStoredValueAsText(t *testing.T) {
	t.Parallel()
	f := form{Others: values{"title": "", "tags": "a\nb", "expires_at": "2030-01-02T03:04", "url": "https://T.example/"}}
	for field, want := range map[string]string{
		"title": "Stored now: nothing", "tags": "Stored now: a, b", "expires_at": "Stored now: 2030-01-02 03:04", "url": "Stored now: https://T.example/", "forward": "",
	} {
		if got := f.Other(field); got != want {
			t.Errorf("Other(%q) = %q, want %q", field, got, want)
		}
	}
}

// A change contains only the fields that the person changed.
func TestPatchHasOnlyChangedFields(t *testing.T) {
	t.Parallel()
	seen := values{"url": "u", "title": "t", "tags": "a\nb", "expires_at": "2030-01-02T03:04:05", "redirect": "302", "forward": "none"}
	if p := seen.patch(seen); p.URL != nil || p.Title != nil || p.Tags != nil || p.ExpiresAt != nil || p.Redirect != nil || p.Forward != nil {
		t.Errorf("the change is %+v, want none", p)
	}
	typed := values{"url": "v", "title": "", "tags": "", "expires_at": "2031-01-02T03:04", "redirect": "x", "forward": "query"}
	p := typed.patch(seen)
	if *p.URL != "v" || *p.Title != "" || len(*p.Tags) != 0 || *p.ExpiresAt != "2031-01-02T03:04:00Z" || *p.Redirect != 0 || *p.Forward != "query" {
		t.Errorf("the change is %+v", p)
	}
	typed["expires_at"] = ""
	if p := typed.patch(seen); *p.ExpiresAt != "" {
		t.Errorf("the expiry is %q, want none", *p.ExpiresAt)
	}
}

// The address of a page of the list contains the parameters of the filter.
func TestAddressOfLinkListContainsFilter(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]filter{
		"/links/":                       {State: service.StateActive, base: "/links"},
		"/links/?cursor=c":              {State: service.StateActive, base: "/links", Cursor: "c"},
		"/links/?q=a%26b&state=expired": {State: service.StateExpired, base: "/links", Text: "a&b"},
		"/links/?host=h&tag=t":          {State: service.StateActive, base: "/links", Tag: "t", Host: "h"},
	} {
		if got := f.At(f.Cursor); got != want {
			t.Errorf("the address is %s, want %s", got, want)
		}
	}
}

// The list repeats its filter in the address of each link only if the filter is short.
func TestAddressesOfLinksInListOmitLongFilter(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]filter{
		"":                 {State: service.StateActive, Text: strings.Repeat("&", 300)},
		"?list=q%3D%2526":  {State: service.StateActive, Text: "&"},
		"?list=cursor%3Dc": {State: service.StateActive, Cursor: "c"},
	} {
		if got := f.Suffix(); got != want {
			t.Errorf("the suffix is %s, want %s", got, want)
		}
	}
}

// The page that a browser requests after the sign-in is always a page of this service.
func TestSignInLeadsOnlyToPagesOfService(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/admin/code/a?x=1": "/admin/code/a?x=1", "": "/admin/", "/": "/admin/", "//evil.example": "/admin/", "https://evil.example/admin/": "/admin/",
		`/\evil.example`: "/admin/", "/admin": "/admin/", "/adminx/": "/admin/", "/admin/\\x": "/admin/", "javascript:alert(1)": "/admin/",
		"/admin/../phish": "/admin/", "/admin/%2e%2e/phish": "/admin/", "/admin/.%2E/phish": "/admin/", "/admin/code/../../x": "/admin/", "/admin/%zz": "/admin/",
		"/admin/code/../new": "/admin/new", "/admin/?q=a%2Fb&tag=..": "/admin/?q=a%2Fb&tag=..", "/admin/new?url=https://go.dev/../x": "/admin/new?url=https://go.dev/../x",
		"/admin/#/../../sso-next": "/admin/", "/admin/code/a#/../../../x": "/admin/", "/admin/%23/../../x": "/admin/", "/admin/%23/%2e%2e/%2e%2e/x": "/admin/",
		"/admin/code/%23/..": "/admin/code", "/admin/code/a%23b": "/admin/code/a%23b", "/admin/x/../": "/admin/", "/admin/%252e%252e/x": "/admin/%252e%252e/x", "/admin/..%2f..%2fx": "/admin/", "/admin/%5c..": "/admin/",
		`/admin/..\x`: "/admin/", "/admin//evil.example": "/admin/evil.example", "//evil.example/admin/": "/admin/", "///evil.example": "/admin/",
		"http:/admin/x": "/admin/", "http:admin/": "/admin/", "admin/x": "/admin/", "?x": "/admin/", "/admin/x\n": "/admin/",
		"/admin/" + strings.Repeat("x", 8000): "/admin/" + strings.Repeat("x", 8000), "/admin/" + strings.Repeat("x", 8200): "/admin/",
	} {
		if got := local(text, "/admin"); got != want {
			t.Errorf("local(%q) = %q, want %q", text, got, want)
		}
		w := httptest.NewRecorder() // the redirect must lead to the same page
		http.Redirect(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/sign-in", nil), local(text, "/admin"), http.StatusSeeOther)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("the redirect for %q leads to %q, want %q", text, got, want)
		}
	}
}

// An error page proposes a command that contains the name of the person. A shell reads this name as one word, whatever
// characters the name contains.
func TestQuotedNameIsOneShellWord(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alice", "$(echo x)", "`id`", `a"b\c`, "o'hara's", "a b;c&d|e", "!x", "$HOME", ""} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quoted(name)).Output()
		if err != nil || string(got) != name {
			t.Errorf("a shell reads %s as %q, want %q: %v", quoted(name), got, name, err)
		}
	}
}
