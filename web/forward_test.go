package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"keypool/shortener"
	"keypool/web/client"
)

func TestForwardAppendsQueryAndPathOfRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ url, forward, request, want string }{
		{"https://h/a?x=1#f", "none", "/c?y=2", "https://h/a?x=1#f"},
		{"https://h/a#f", "query", "/c?y=2", "https://h/a?y=2#f"},
		{"https://h/a?x=1#f", "query", "/c?y=%2f&z=+%", "https://h/a?x=1&y=%2f&z=+%#f"},
		{"https://h/a?", "query", "/c?y", "https://h/a?y"},
		{"https://h/a?x=1", "query", "/c", "https://h/a?x=1"},
		{"https://h/a?x=1", "query", "/c?", "https://h/a?x=1"},
		{"https://h/a#f?g", "query", "/c?y", "https://h/a?y#f?g"},
		{"https://h/a", "query+path", "/c", "https://h/a"},
		{"https://h/a", "query+path", "/c/", "https://h/a/"},
		{"https://h", "query+path", "/c/b", "https://h/b"},
		{"https://h/", "query+path", "/c/b", "https://h/b"},
		{"https://h/a?x=1#f", "query+path", "/c/b%2Fc/%41/../d?y=2", "https://h/a/b%2Fc/%41/../d?x=1&y=2#f"},
		{"https://h/a", "query+path", `/c/a%2Fb|c"{}^%7e~`, `https://h/a/a%2Fb|c"{}^%7e~`},
		{"https://h/a", "query+path", "/c/a%2Fé%7e", "https://h/a/a%2F%C3%A9%7e"},
		{"https://h/a", "query", "/c?a%2Fé|%7e", "https://h/a?a%2F%C3%A9|%7e"},
		{"https://h/a#f", "query+path", "/c/b#c?y#z", "https://h/a/b%23c?y%23z#f"},
		{"https://h/a", "query+path", "http://s.example/c/a%2Fb?y=2", "https://h/a/a%2Fb?y=2"},
	} {
		forwarded := shortener.Forward(test.forward)
		l := &shortener.Link{URL: test.url, Details: &shortener.Details{Forward: forwarded}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.request, nil)
		if got := forward(l, r); got != test.want {
			t.Errorf("a link to %s that forwards %s leads from %s to %s, want %s", test.url, test.forward, test.request, got, test.want)
		}
	}
}

func TestPathAfterCodeAnswers404IfLinkDoesNotForwardPaths(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://h.example/a?x=1","alias":"with","forward":"query+path","redirect":301}`)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://h.example/a","alias":"without","forward":"query"}`)
	for path, want := range map[string]string{
		"/with/b?y=2":   "301 https://h.example/a/b?x=1&y=2",
		"/w%69th/b":     "301 https://h.example/a/b?x=1",
		"/w%2569th/b":   "404 ", // the code is w%69th
		"/with?y=2":     "301 https://h.example/a?x=1&y=2",
		"/without/b":    "404 ",
		"/without/":     "404 ",
		"/unknown/b":    "404 ",
		"/without?y=%2": "302 https://h.example/a?y=%2",
	} {
		if got := o.location(t, path); got != want {
			t.Errorf("GET %s: %s, want %s", path, got, want)
		}
	}
}

// The redirect contains the path after the code as the client sent it, even if the path contains a byte that is
// not allowed in a URL.
func TestForwardKeepsEncodingOfPath(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://h.example/a","alias":"with","forward":"query+path"}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "/with/a%2Fb|\xff" // net/http sends it unchanged
	resp, err := o.client.Transport.(*contract).next.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, want := resp.Header.Get("Location"), "https://h.example/a/a%2Fb|%FF"; got != want {
		t.Errorf("the link leads to %s, want %s", got, want)
	}
}
