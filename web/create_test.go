package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

func TestCreateRefusesBadRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	tests := []struct {
		name, media, body string
		status            int
		problem, field    string
	}{
		{"missing media type", "", `{"url":"https://go.dev"}`, 415, "unsupported-media-type", ""},
		{"unsupported media type", "text/plain", "https://go.dev", 415, "unsupported-media-type", ""},
		{"malformed media type", "application/json; charset", `{}`, 415, "unsupported-media-type", ""},
		{"unsupported charset", "application/json; charset=latin1", `{}`, 415, "unsupported-media-type", ""},
		{"multipart body", "multipart/form-data; boundary=x", "--x--", 415, "unsupported-media-type", ""},
		{"empty JSON body", media.JSON, "", 400, "malformed", ""},
		{"truncated object", media.JSON, `{"url":"https://go.dev"`, 400, "malformed", ""},
		{"truncated value", media.JSON, `{"url":`, 400, "malformed", ""},
		{"form sent as JSON", media.JSON, `url=https://go.dev`, 400, "malformed", ""},
		{"array instead of an object", media.JSON, `["https://go.dev"]`, 400, "malformed", ""},
		{"string instead of an object", media.JSON, `"https://go.dev"`, 400, "malformed", ""},
		{"null instead of an object", media.JSON, `null`, 400, "malformed", ""},
		{"second object after the first", media.JSON, `{"url":"https://go.dev"}{}`, 400, "malformed", ""},
		{"text after the object", media.JSON, `{"url":"https://go.dev"} x`, 400, "malformed", ""},
		{"comma after the last member", media.JSON, `{"url":"https://go.dev",}`, 400, "malformed", ""},
		{"unknown member", media.JSON, `{"url":"https://go.dev","ttl":1}`, 400, "malformed", ""},
		{"member name in another letter case", media.JSON, `{"URL":"https://go.dev"}`, 400, "malformed", ""},
		{"repeated member", media.JSON, `{"url":"https://go.dev","url":"https://go.dev"}`, 400, "malformed", ""},
		{"repeated member whose first value is null", media.JSON, `{"url":null,"url":"https://go.dev"}`, 400, "malformed", ""},
		{"invalid UTF-8", media.JSON, "{\"url\":\"https://go.dev/\xff\"}", 400, "malformed", ""},
		{"unpaired surrogate", media.JSON, `{"url":"https://go.dev/\ud800"}`, 400, "malformed", ""},
		{"unpaired surrogate beside U+FFFD", media.JSON, "{\"url\":\"https://go.dev/\uFFFD\\\\ufffd\\ud800\"}", 400, "malformed", ""},
		{"missing url", media.JSON, `{}`, 422, "invalid-field", "url"},
		{"null url", media.JSON, `{"url":null}`, 422, "invalid-field", "url"},
		{"empty url", media.JSON, `{"url":""}`, 422, "invalid-field", "url"},
		{"number as url", media.JSON, `{"url":1}`, 422, "invalid-field", "url"},
		{"array as url", media.JSON, `{"url":["https://go.dev"]}`, 422, "invalid-field", "url"},
		{"url with an unsupported scheme", media.JSON, `{"url":"ftp://go.dev"}`, 422, "invalid-field", "url"},
		{"empty alias", media.JSON, `{"url":"https://go.dev","alias":""}`, 422, "invalid-field", "alias"},
		{"alias with a space", media.JSON, `{"url":"https://go.dev","alias":"a b"}`, 422, "invalid-field", "alias"},
		{"reserved alias", media.JSON, `{"url":"https://go.dev","alias":"Admin"}`, 422, "invalid-field", "alias"},
		{"boolean as alias", media.JSON, `{"url":"https://go.dev","alias":true}`, 422, "invalid-field", "alias"},
		{"number as expires_at", media.JSON, `{"url":"https://go.dev","expires_at":1}`, 422, "invalid-field", "expires_at"},
		{"expires_at in the past", media.JSON, `{"url":"https://go.dev","expires_at":"2001-01-01T00:00:00Z"}`, 422, "invalid-field", "expires_at"},
		{"negative expires_in", media.JSON, `{"url":"https://go.dev","expires_in":-1}`, 422, "invalid-field", "expires_in"},
		{"object as expires_in", media.JSON, `{"url":"https://go.dev","expires_in":{}}`, 422, "invalid-field", "expires_in"},
		{"both expires_at and expires_in", media.JSON, `{"url":"https://go.dev","expires_in":1,"expires_at":"2050-01-01T00:00:00Z"}`, 422, "invalid-field", "expires_in"},
		{"empty form", media.Form, "", 422, "invalid-field", "url"},
		{"form with an empty url", media.Form, "url=", 422, "invalid-field", "url"},
		{"malformed form", media.Form, "url=%zz", 400, "malformed", ""},
		{"semicolon between form fields", media.Form, "url=https://go.dev;alias=x", 400, "malformed", ""},
		{"unknown form field", media.Form, "url=https://go.dev&ttl=1", 400, "malformed", ""},
		{"repeated form field", media.Form, "url=https://go.dev&url=https://go.dev", 400, "malformed", ""},
		{"JSON sent as a form", media.Form, `{"url":"https://go.dev"}`, 400, "malformed", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			headers := []string{"Content-Type", tt.media}
			if tt.media == "" {
				headers = nil
			}
			r := s.do(t, http.MethodPost, "/shorten", tt.body, headers...)
			p := decode[reply.Problem](t, r.body)
			got := reply.Problem{Type: p.Type, Status: r.status, Field: p.Field}
			want := reply.Problem{Type: reply.TypePrefix + tt.problem, Status: tt.status, Field: tt.field}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n%s", diff, r.body)
			}
			if p.Status != r.status || p.Detail == "" || r.header.Get("Content-Type") != media.Problem {
				t.Errorf("an incomplete problem: %v %s", r.header, r.body)
			}
		})
	}
}

func TestCreateAcceptsJSONAndForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	tests := []struct{ name, media, body, url string }{
		{"JSON", media.JSON, `{"url":"https://go.dev/?a=1&b=<2>"}`, "https://go.dev/?a=1&b=%3C2%3E"},
		{"charset UTF-8", "Application/JSON; Charset=UTF-8", `{"url":"https://go.dev"}`, "https://go.dev"},
		{"null members", media.JSON, `{"url":"https://go.dev","alias":null,"expires_at":null,"expires_in":null}`, "https://go.dev"},
		{"seconds", media.JSON, `{"url":"https://go.dev","expires_in":3600}`, "https://go.dev"},
		{"seconds in a string", media.JSON, `{"url":"https://go.dev","expires_in":"3600"}`, "https://go.dev"},
		{"duration", media.JSON, `{"url":"https://go.dev","expires_in":"1h"}`, "https://go.dev"},
		{"white space around the object", media.JSON, " \n{ \"url\" : \"https://go.dev\" }\n", "https://go.dev"},
		{"U+FFFD", media.JSON, "{\"url\":\"https://go.dev/\uFFFD\\uFffd\"}", "https://go.dev/%EF%BF%BD%EF%BF%BD"},
		{"form", media.Form, "url=https://go.dev/a%20b", "https://go.dev/a%20b"},
		{"form with empty fields", media.Form, "url=https%3A%2F%2Fgo.dev&alias=&expires_at=&expires_in=", "https://go.dev"},
		{"Latin-1 form", media.Form, "url=https://go.dev/%E9", "https://go.dev/%E9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := s.do(t, http.MethodPost, "/shorten", tt.body, "Content-Type", tt.media)
			a := decode[answer](t, r.body)
			if r.status != http.StatusCreated || a.URL != tt.url || a.ShortURL != s.url+"/"+a.Code {
				t.Errorf("status %d (want 201), %s", r.status, r.body)
			}
			if r.header.Get("Location") != a.ShortURL {
				t.Errorf("Location is %q, the short URL is %q", r.header.Get("Location"), a.ShortURL)
			}
			if strings.Contains(tt.name, "seconds") || tt.name == "duration" {
				if lifetime := a.ExpiresAt.Sub(a.CreatedAt); lifetime != time.Hour {
					t.Errorf("the link expires %s after its creation", lifetime)
				}
			} else if strings.Contains(r.body, "expires_at") {
				t.Errorf("the link has an expiry that was not requested: %s", r.body)
			}
			if a.CreatedAt.Location() != time.UTC || a.CreatedAt.IsZero() {
				t.Errorf("the creation time is %v", a.CreatedAt)
			}
		})
	}
}

func TestCreationWithTakenAliasGetsExistingLinkOnlyIfURLIsTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	first := s.shorten(t, `{"url":"https://go.dev","alias":"home"}`)
	again := s.do(t, http.MethodPost, "/shorten", `{"url":"https://go.dev","alias":"home"}`, "Content-Type", media.JSON)
	if again.status != http.StatusOK || again.header.Get("Location") != "" {
		t.Errorf("the repeated request has status %d and Location %q, want 200 and no Location", again.status, again.header.Get("Location"))
	}
	if diff := cmp.Diff(first, decode[answer](t, again.body)); diff != "" {
		t.Error(diff)
	}
	other := s.do(t, http.MethodPost, "/shorten", `{"url":"https://go.dev/doc","alias":"home"}`, "Content-Type", media.JSON)
	p := decode[reply.Problem](t, other.body)
	if other.status != http.StatusConflict || p.Field != "alias" || p.Type != reply.TypePrefix+"alias-taken" {
		t.Errorf("the alias with another URL has status %d (want 409) and problem %+v", other.status, p)
	}
}

func TestCreationIsAnsweredInAcceptedMediaType(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	text := s.do(t, http.MethodPost, "/shorten", "url=https://go.dev", "Content-Type", media.Form, "Accept", "text/plain")
	if location := text.header.Get("Location"); text.body != location+"\n" || text.status != http.StatusCreated {
		t.Errorf("the text answer has status %d (want 201), body %q and Location %q", text.status, text.body, location)
	}
	if sniff := text.header.Get("X-Content-Type-Options"); sniff != "nosniff" {
		t.Errorf("the text answer has X-Content-Type-Options %q, want nosniff", sniff)
	}
	page := s.do(t, http.MethodPost, "/shorten", "url=https://go.dev", "Content-Type", media.Form, "Accept", "text/html,*/*;q=0.8")
	if !strings.HasPrefix(page.body, "<!doctype html>") || !strings.Contains(page.body, page.header.Get("Location")) {
		t.Errorf("the page has status %d and body %q", page.status, page.body)
	}
	refused := s.do(t, http.MethodPost, "/shorten", "url=ftp://a%22b&alias=%3Cb%3E", "Content-Type", media.Form, "Accept", "text/html")
	for _, want := range []string{`value="ftp://a&#34;b"`, `value="&lt;b&gt;"`, `aria-describedby="url-error"`, "The link must"} {
		if refused.status != 422 || !strings.Contains(refused.body, want) {
			t.Errorf("status %d (want 422), no %s in:\n%s", refused.status, want, refused.body)
		}
	}
}

// Only a request with a token may give its link a title. The server refuses the form, and the page of the
// refusal keeps the URL that the person entered.
func TestPageKeepsInputIfFieldRequiresToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := s.do(t, http.MethodPost, "/shorten", "url=https://go.dev/doc&title=x", "Content-Type", media.Form, "Accept", "text/html")
	if r.status != http.StatusUnauthorized || !strings.Contains(r.body, `value="https://go.dev/doc"`) {
		t.Errorf("status %d, want 401 and the URL in the form:\n%s", r.status, r.body)
	}
}

// The limit applies to bodies with a Content-Length and to chunked bodies.
func TestCreateRefusesLargeBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	pad := func(n int) string {
		const frame = `{"url":"https://go.dev"}`
		return frame + strings.Repeat(" ", n-len(frame))
	}
	for size, want := range map[int]int{maxBody: http.StatusCreated, maxBody + 1: http.StatusRequestEntityTooLarge} {
		announced := s.do(t, http.MethodPost, "/shorten", pad(size), "Content-Type", media.JSON)
		if announced.status != want {
			t.Errorf("a body of %d bytes has status %d", size, announced.status)
		}
		if got := s.chunked(t, pad(size)); got != want {
			t.Errorf("a chunked body of %d bytes has status %d", size, got)
		}
	}
}

// chunked posts a body without a Content-Length and returns the status. It checks that the server
// closes the connection after a body that is too large.
func (s *site) chunked(t *testing.T, body string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /shorten HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestEntityTooLarge {
		_, err := io.Copy(io.Discard, resp.Body)
		if _, end := reader.ReadByte(); !resp.Close || err != nil || !errors.Is(end, io.EOF) {
			t.Errorf("Connection: close is %v (error %v), and a read after the 413 returns %v; want true and EOF", resp.Close, err, end)
		}
	}
	return resp.StatusCode
}

func TestCreateRefusesContentCoding(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := s.do(t, http.MethodPost, "/shorten", "\x1f\x8b", "Content-Type", media.JSON, "Content-Encoding", "gzip")
	s.wantProblem(t, r, http.StatusUnsupportedMediaType, "unsupported-media-type")
}

// The answer to an unsupported media type names the media types that the operation accepts.
func TestUnsupportedMediaTypeNamesAcceptedTypes(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	for _, test := range []struct{ method, path, accept string }{
		{http.MethodPost, "/shorten", "application/json, application/x-www-form-urlencoded"},
		{http.MethodPost, "/api/links", "application/x-ndjson"},
		{http.MethodPatch, "/api/links/abc", "application/merge-patch+json, application/json"},
	} {
		r := o.do(t, test.method, test.path, "x", "Content-Type", "image/png", "Authorization", o.authorization)
		o.wantProblem(t, r, http.StatusUnsupportedMediaType, "unsupported-media-type")
		wantHeader(t, r, "Accept", test.accept)
	}
}

// An answer escapes and shortens an unknown name that it quotes from the request.
func TestCreateTruncatesLongNamesInErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	body := url.Values{strings.Repeat("<é>", 1000): {"x"}}.Encode()
	r := s.do(t, http.MethodPost, "/shorten", body, "Content-Type", media.Form, "Accept", "text/html")
	if r.status != 400 || len(r.body) > 20<<10 || strings.Contains(r.body, "<é>") {
		t.Errorf("status %d (want 400), %d bytes", r.status, len(r.body))
	}
}
