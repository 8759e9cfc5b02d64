package web

import (
	"net/http"
	"testing"
)

func TestNegotiateSelectsByQValue(t *testing.T) {
	t.Parallel()
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	for accept, want := range map[string]string{
		"*/*":                                 mediaJSON,
		"application/json":                    mediaJSON,
		"text/plain":                          mediaText,
		"TEXT/Plain;q=1":                      mediaText,
		"text/html":                           mediaHTML,
		browser:                               mediaHTML,
		"text/*":                              mediaText,
		"text/*, text/plain;q=0":              mediaHTML,
		"text/plain;q=0.5, text/html;q=0.6":   mediaHTML,
		"text/plain;q=0.5, */*;q=0.1":         mediaText,
		"*/*;q=0.1, text/html;q=0":            mediaJSON,
		"text/html;level=1;q=0.4, text/plain": mediaText,
		"text/html;q=2, text/plain;q=0.1":     mediaText,
		"text/html;q=NaN":                     mediaJSON,
		"image/png":                           mediaJSON,
		"application/problem+json, text/html;q=0.9": mediaJSON,
		", ;q=, text/plain":                         mediaText,
	} {
		r := &http.Request{Header: http.Header{"Accept": {accept}}}
		if got := negotiate(r, mediaJSON, mediaText, mediaHTML); got != want {
			t.Errorf("the header Accept: %s selects %s, want %s", accept, got, want)
		}
	}
	split := &http.Request{Header: http.Header{"Accept": {"image/png", "text/plain"}}}
	if got := negotiate(split, mediaJSON, mediaText, mediaHTML); got != mediaText {
		t.Errorf("two Accept headers select %s", got)
	}
	if got := negotiate(&http.Request{}, mediaJSON, mediaText); got != mediaJSON {
		t.Errorf("a request without Accept selects %s", got)
	}
}
