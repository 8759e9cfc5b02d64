package api

import (
	"strings"
	"testing"

	"keypool/web/internal/problem"
)

// If a body has two faults, the error names a syntax error before any other fault, and otherwise
// the first fault.
func TestParseJSONReportsTheFirstFault(t *testing.T) {
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

func TestParseJSONKeepsNumbersAsWritten(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"60", "-1", "3.6e3", "1E2", "0.50", "99999999999999999999", "1e999"} {
		r, err := parseJSON([]byte(`{"expires_in":` + number + `}`))
		if err != nil || r.ExpiresIn == nil || *r.ExpiresIn != number {
			t.Errorf("expires_in %s is read as %v, error %v", number, r.ExpiresIn, err)
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
