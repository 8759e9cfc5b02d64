package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// The answer to any body is a link or a problem with a status below 500.
func FuzzCreateBody(f *testing.F) {
	for _, seed := range [][2]string{
		{media.JSON, `{"url":"https://go.dev","alias":"a","expires_in":60}`},
		{media.JSON, `{"url":"https://go.dev","expires_at":"2050-01-01T00:00:00+01:00"}`},
		{media.JSON, `{"url":"\ud800","expires_in":1e999}`},
		{media.JSON + "; charset=utf-8", `{"url":null,"alias":[]}`},
		{media.Form, "url=https%3A%2F%2Fb%C3%BCcher.example%2F&alias=&expires_in=36h"},
		{media.Form, `{"url":"https://go.dev"}`},
		{"text/html", "<p>"},
		{"", ""},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	service, _ := newService(f, nil)
	handler := NewPublic(PublicConfig{Service: service})
	f.Fuzz(func(t *testing.T, mediaType string, body []byte) {
		w := postBody(t, handler, mediaType, body)
		for w.Code == http.StatusServiceUnavailable { // a slow disk; the answer asks for another attempt
			w = postBody(t, handler, mediaType, body)
		}
		switch {
		case w.Code >= 500:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		case w.Code >= 400:
			var p reply.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code ||
				!strings.HasPrefix(p.Type, reply.TypePrefix) || w.Header().Get("Content-Type") != media.Problem {
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

func postBody(t *testing.T, handler http.Handler, mediaType string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/shorten", bytes.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	r.RemoteAddr = "127.0.0.1:40000" // the limit of creations does not apply to loopback addresses
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}
