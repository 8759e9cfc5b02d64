package media

import (
	"net/http"
	"strings"
	"testing"
)

func TestNegotiateSelectsMediaTypeByQValue(t *testing.T) {
	t.Parallel()
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	for accept, want := range map[string]string{
		"*/*":                                 JSON,
		"application/json":                    JSON,
		"text/plain":                          Text,
		"TEXT/Plain;q=1":                      Text,
		"text/html":                           HTML,
		browser:                               HTML,
		"text/*":                              Text,
		"text/*, text/plain;q=0":              HTML,
		"text/plain;q=0.5, text/html;q=0.6":   HTML,
		"text/plain;q=0.5, */*;q=0.1":         Text,
		"*/*;q=0.1, text/html;q=0":            JSON,
		"text/html;level=1;q=0.4, text/plain": Text,
		"text/html;q=2, text/plain;q=0.1":     Text,
		"text/html;q=NaN":                     JSON,
		"image/png":                           JSON,
		"application/problem+json, text/html;q=0.9":              JSON,
		", ;q=, text/plain":                                      Text,
		strings.Repeat("image/png,", maxRanges-1) + "text/plain": Text,
		strings.Repeat("image/png,", maxRanges) + "text/plain":   JSON,
	} {
		r := &http.Request{Header: http.Header{"Accept": {accept}}}
		if got := Negotiate(r, JSON, Text, HTML); got != want {
			t.Errorf("the header Accept: %s selects %s, want %s", accept, got, want)
		}
	}
	split := &http.Request{Header: http.Header{"Accept": {"image/png", "text/plain"}}}
	if got := Negotiate(split, JSON, Text, HTML); got != Text {
		t.Errorf("two Accept headers select %s", got)
	}
	if got := Negotiate(&http.Request{}, JSON, Text); got != JSON {
		t.Errorf("a request without Accept selects %s", got)
	}
}
