package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"keypool/web/internal/reply"
)

// The answer to any body is a link or a problem with a status below 500.
func FuzzCreateBody(f *testing.F) {
	for _, seed := range [][2]string{
		{mediaJSON, `{"url":"https://go.dev","alias":"a","expires_in":60}`},
		{mediaJSON, `{"url":"https://go.dev","expires_at":"2050-01-01T00:00:00+01:00"}`},
		{mediaJSON, `{"url":"\ud800","expires_in":1e999}`},
		{mediaJSON + "; charset=utf-8", `{"url":null,"alias":[]}`},
		{mediaForm, "url=https%3A%2F%2Fb%C3%BCcher.example%2F&alias=&expires_in=36h"},
		{mediaForm, `{"url":"https://go.dev"}`},
		{"text/html", "<p>"},
		{"", ""},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	service, _ := newService(f, nil)
	handler := NewPublic(PublicConfig{Service: service})
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		w := postBody(t, handler, media, body)
		for w.Code == http.StatusServiceUnavailable { // a slow disk; the answer asks for another attempt
			w = postBody(t, handler, media, body)
		}
		switch {
		case w.Code >= 500:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		case w.Code >= 400:
			var p reply.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code ||
				!strings.HasPrefix(p.Type, reply.TypePrefix) || w.Header().Get("Content-Type") != mediaProblem {
				t.Fatalf("the answer is not a problem: %v %s", w.Header(), w.Body)
			}
		default:
			var a answer
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Header().Get("Location") != a.ShortURL && w.Code == http.StatusCreated {
				t.Fatalf("the answer is not a link: %v %s", w.Header(), w.Body)
			}
		}
	})
}

func postBody(t *testing.T, handler http.Handler, media string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/shorten", bytes.NewReader(body))
	r.Header.Set("Content-Type", media)
	r.RemoteAddr = "127.0.0.1:40000" // the limit of creations does not apply to loopback addresses
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// The answer to a creation has the same bytes as the encoding of its struct by encoding/json.
func FuzzAnswerJSON(f *testing.F) {
	created := time.Date(2026, time.March, 1, 12, 0, 0, 120_000_000, time.UTC).UnixMicro()
	for _, seed := range []struct {
		code, url        string
		created, expires int64
	}{
		{"abc", "https://go.dev/?a=1&b=<2>", created, zeroTime},
		{"a-b_c", `https://go.dev/"\`, created + 123_456, created},
		{"", "b\u00fccher\u2028\x00\x7f\t\xff", -1, 0},
		{"abc", "https://go.dev/", 1 << 60, zeroTime}, // a year that RFC 3339 cannot express
		{"abc", "https://go.dev/", created, -1 << 60},
	} {
		f.Add(seed.code, seed.url, seed.created, seed.expires)
	}
	f.Fuzz(func(t *testing.T, code, url string, created, expires int64) {
		a := &answer{
			Code: code, ShortURL: "http://sho.rt/" + code, URL: url,
			CreatedAt: time.UnixMicro(created).UTC(), ExpiresAt: time.UnixMicro(expires).UTC(),
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		wantErr := enc.Encode(a)
		got, err := a.appendJSON(nil)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err == nil && !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("the answer is %q, want %q", got, want.Bytes())
		}
	})
}

// zeroTime is the zero time in microseconds since 1970.
const zeroTime = -62_135_596_800_000_000
