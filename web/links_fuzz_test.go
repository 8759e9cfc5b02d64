package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"keypool/shortener/token"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// anyToken accepts every token.
type anyToken struct{}

func (anyToken) Authenticate(context.Context, string) (token.Token, error) {
	return token.Token{ID: 1, Name: "fuzz", Scopes: token.ScopeAdmin}, nil
}

func (anyToken) Name(int64) string { return "fuzz" }

// recorder is a ResponseRecorder that accepts deadlines and ignores them.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// ask sends a request with a token. It repeats the request while the disk is too slow.
func ask(t testing.TB, h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	for {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer x")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(recorder{w}, r); w.Code != http.StatusServiceUnavailable {
			return w
		}
	}
}

func wantProblem(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var p reply.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || w.Code >= http.StatusInternalServerError ||
		!strings.HasPrefix(p.Type, reply.TypePrefix) {
		t.Fatalf("status %d, %s is no problem of the client: %v", w.Code, w.Body, err)
	}
}

func fuzzed(f *testing.F) http.Handler {
	f.Helper()
	service, _ := newService(f, nil)
	return NewPublic(PublicConfig{Service: service, Tokens: anyToken{}})
}

// A patch changes the link or is refused. It never changes the URL of a fixed link.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{"title":null,"tags":["a"],"expires_at":"2100-01-01T00:00:00Z"}`, `{"url":"https://go.dev/","redirect":301,"forward":"query"}`,
		`{"tags":null,"redirect":null,"forward":null,"expires_at":null}`, `{"title":"\ud800"}`, `{"redirect":1e999}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed), `"1"`)
	}
	handler := fuzzed(f)
	const fixed = "https://fixed.example/"
	ask(f, handler, http.MethodPost, "/shorten", `{"url":"`+fixed+`","alias":"fixed"}`, "Content-Type", media.JSON)
	ask(f, handler, http.MethodPost, "/shorten", `{"url":"`+fixed+`","alias":"open","editable":true}`, "Content-Type", media.JSON)
	f.Fuzz(func(t *testing.T, body []byte, version string) {
		for _, code := range []string{"fixed", "open"} {
			w := ask(t, handler, http.MethodPatch, "/api/links/"+code, string(body), "Content-Type", media.MergePatch, "If-Match", version)
			if w.Code != http.StatusOK {
				wantProblem(t, w)
			}
			var changed, read fullLink
			got := ask(t, handler, http.MethodGet, "/api/links/"+code, "")
			if err := json.Unmarshal(got.Body.Bytes(), &read); err != nil {
				t.Fatalf("the link is %s", got.Body)
			}
			if w.Code == http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &changed) != nil || changed.Version != read.Version || w.Body.String() != got.Body.String()) {
				t.Fatalf("the answer to the patch is %s, and the link is %s", w.Body, got.Body)
			}
			if code == "fixed" && read.URL != fixed {
				t.Fatalf("the fixed link leads to %s", read.URL)
			}
		}
	})
}

// A bulk request is refused as a whole, or gets one answer for each line that is not blank.
func FuzzBulk(f *testing.F) {
	for _, seed := range []string{
		`{"url":"https://go.dev"}` + "\n" + `{"ref":"1","url":"https://go.dev","alias":"a"}` + "\n", "\n\n{}\r\n", `{"ref":"` + strings.Repeat("x", 70) + `"}`, "null", "",
	} {
		f.Add([]byte(seed))
	}
	handler := fuzzed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := ask(t, handler, http.MethodPost, "/api/links", string(body), "Content-Type", media.NDJSON)
		if w.Code != http.StatusOK {
			wantProblem(t, w)
			return
		}
		var lines, answers int
		for line := range bytes.Lines(body) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines++
			}
		}
		for line := range strings.Lines(w.Body.String()) {
			var a bulkAnswer
			if err := json.Unmarshal([]byte(line), &a); err != nil || (a.Link == nil) == (a.Problem == nil) || a.Status >= http.StatusInternalServerError && a.Status != http.StatusServiceUnavailable {
				t.Fatalf("the answer to a line is %s", line)
			}
			answers++
		}
		if lines != answers {
			t.Fatalf("%d answers to %d lines", answers, lines)
		}
	})
}

// For each value of the header Idempotency-Key, the service either refuses the request, or answers a repetition of the
// request with the link of the first request.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{firstKey, `"`, ``, `0123456789abcdef`, `"0123456789abcdef";a=1`, `"0123456789\"bcdef"`} {
		f.Add(seed)
	}
	handler := fuzzed(f)
	f.Fuzz(func(t *testing.T, key string) {
		var first string
		for range 2 {
			w := ask(t, handler, http.MethodPost, "/shorten", `{"url":"https://go.dev"}`, "Content-Type", media.JSON, "Idempotency-Key", key)
			if w.Code != http.StatusCreated {
				wantProblem(t, w)
				return
			}
			if first != "" && (w.Body.String() != first || w.Header().Get("Idempotency-Replayed") != "true") {
				t.Fatalf("the repetition with the key %q got %s, want %s", key, w.Body, first)
			}
			first = w.Body.String()
		}
	})
}
