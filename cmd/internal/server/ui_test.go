package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"keypool/cmd/internal/config"
)

// get sends a GET request with a header.
func (r *running) get(target, name, value string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set(name, value)
	if name == "Host" {
		req.Host = value
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	return answer{status: resp.StatusCode, header: resp.Header}
}

// A server has pages for links on the admin listener, and on the public listener if UI is
// not off.
func TestServerServesLinkManagementPages(t *testing.T) {
	t.Parallel()
	off := start(t, settings(t, sqliteURL(t), "", "--admin-hosts=keypool.internal"))
	for _, tt := range []struct {
		url, host string
		status    int
	}{
		{off.AdminURL() + "/links/", "localhost", http.StatusOK},
		{off.AdminURL() + "/links", "127.0.0.1", http.StatusSeeOther},
		{off.AdminURL() + "/links/", "keypool.internal:8081", http.StatusOK},
		{off.AdminURL() + "/links/", "evil.example", http.StatusMisdirectedRequest},
		{off.AdminURL() + "/metrics", "evil.example", http.StatusMisdirectedRequest},
		{off.URL() + "/admin/", "evil.example", http.StatusNotFound},
	} {
		if a := off.get(tt.url, "Host", tt.host); a.status != tt.status {
			t.Errorf("GET %s of the host %s has status %d, want %d", tt.url, tt.host, a.status, tt.status)
		}
	}
	short := off.do(http.MethodPost, off.URL()+"/shorten", url.Values{"url": {"https://go.dev/"}, "alias": {"mine"}}.Encode())
	if page := off.do(http.MethodGet, off.AdminURL()+"/links/", ""); short.status != http.StatusCreated || !strings.Contains(page.body, ">mine</span></a>") {
		t.Errorf("the list lacks the link: %s", page.body)
	}

	byToken := start(t, settings(t, sqliteURL(t), "", "--ui=token"))
	if a := byToken.get(byToken.URL()+"/admin/", "Remote-User", "root"); a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Location"), "sign-in") {
		t.Errorf("a request without a session gets %+v, want a redirect to the sign-in page", a)
	}
	byHeader := start(t, settings(t, sqliteURL(t), "", "--ui="+config.UIHeader, "--trusted-proxies=127.0.0.0/8", "--ui-user-header=X-User"))
	if a := byHeader.do(http.MethodGet, byHeader.URL()+"/admin/", ""); a.status != http.StatusForbidden || !strings.Contains(a.body, "X-User") {
		t.Errorf("a request without the header of the person gets %+v, want status 403", a)
	}
}
