package api

import (
	"strings"
	"testing"

	"keypool/shortener"
	"keypool/web/internal/problem"
)

// If a body has a syntax error, parseJSON reports the syntax error, even if another fault precedes it in the body. If
// a body has only faults of other kinds, parseJSON reports the first of them.
func TestParseJSONReportsSyntaxErrorBeforeOtherFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, detail string }{
		{`{"url":1,`, "not well-formed"},
		{`{"ttl":1,"url":}`, "not well-formed"},
		{`{"url":"a","url":"b",}`, "not well-formed"},
		{`{"url":"a","url":"b","ttl":1}`, `"url" occurs twice`},
		{`{"ttl":1,"url":"a","url":"b"}`, `no member "ttl"`},
		{`{"url":1,"ttl":1}`, "url must be a string"},
		{`{"a/b~c":1}`, `no member "a/b~c"`},
		{`{"` + strings.Repeat("x", 1000) + `":1}`, `no member "` + strings.Repeat("x", 40) + `..."`},
		{`{"` + strings.Repeat("x", 1000) + `":}`, "after byte"},
		{`[]`, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`1`, "not a JSON object"},
	} {
		_, err := parseJSON([]byte(test.body))
		got := ""
		if err != nil {
			got = problem.Of(err).Detail
		}
		if !strings.Contains(got, test.detail) || len(got) > 200 {
			t.Errorf("the error of the body %.60s is %q, want %q", test.body, got, test.detail)
		}
	}
}

// The decoder is recursive, so it must not see deeply nested bodies.
func TestDeeplyNestedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for body, refused := range map[string]bool{
		`{"url":"a","tags":["b"]}`:                                      false,
		`{"url":"` + strings.Repeat("[{", 1000) + `"}`:                  false,
		`{"x":` + deep(maxNesting-1) + `}`:                              false,
		`{"x":` + deep(maxNesting) + `}`:                                true,
		deep(8000):                                                      true,
		strings.Repeat("[", 16000):                                      true,
		strings.Repeat(`{"a":`, 3000):                                   true,
		`{"url":` + strings.Repeat("[],", 100) + `"` + deep(100) + `"}`: false,
		strings.Repeat("}{", 1000) + deep(100):                          false, // the decoder stops at the first error
	} {
		if tooDeep([]byte(body)) != refused {
			t.Errorf("the body %.40s of %d bytes: refused %t, want %t", body, len(body), !refused, refused)
		}
		_, err := parseJSON([]byte(body))
		if got := err != nil && strings.Contains(problem.Of(err).Detail, "nested arrays"); got != refused {
			t.Errorf("the error of the body %.40s is %v", body, err)
		}
		_, err = parseBulkLine([]byte(body))
		if got := err != nil && strings.Contains(problem.Of(err).Detail, "nested arrays"); got != refused {
			t.Errorf("the error of the bulk line %.40s is %v", body, err)
		}
	}
}

func TestParseJSONKeepsNumbersAsWritten(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"60", "-1", "3.6e3", "1E2", "0.50", "99999999999999999999", "1e999"} {
		r, err := parseJSON([]byte(`{"expires_in":` + number + `}`))
		if err != nil || r.ExpiresIn == nil || *r.ExpiresIn != number {
			t.Errorf("expires_in %s is read as %v, error %v", number, r.ExpiresIn, err)
		}
	}
}

// The buffer of a body is used again for other requests, so the fields of a request must not share memory with the
// buffer.
func TestParsedRequestsShareNoMemoryWithTheBody(t *testing.T) {
	t.Parallel()
	const want = "https://example.com/a aa bb 60 none"
	for _, test := range []struct {
		body  string
		parse func([]byte) (shortener.Request, error)
	}{
		{`{"url":"https://example.com/a","alias":"aa","tags":["bb"],"expires_in":60,"forward":"none"}`, parseJSON},
		{`{"url":"https:\/\/example.com/\u0061","alias":"\u0061a","tags":["b\u0062"],"expires_in":"60","forward":"none"}`, parseJSON},
		{`url=https://example.com/%61&alias=aa&tags=bb&expires_in=60&forward=none`, parseForm},
	} {
		body := []byte(test.body)
		r, err := test.parse(body)
		if err != nil {
			t.Fatalf("%s: %v", test.body, err)
		}
		for i := range body {
			body[i] = 'x'
		}
		if got := strings.Join([]string{r.URL, *r.Alias, r.Tags[0], *r.ExpiresIn, *r.Forward}, " "); got != want {
			t.Errorf("after the body changed, the request is %q, want %q", got, want)
		}
	}
}

func BenchmarkParseJSON(b *testing.B) {
	for name, body := range map[string]string{
		"short": `{"url":"https://go.dev/"}`,
		"full": `{"url":"https://example.com/some/path/of/ordinary/length?with=a&query=that&is=not&very=long",` +
			`"alias":"my-link","expires_in":3600}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseJSON([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
