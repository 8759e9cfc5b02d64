package destination_test

import (
	"testing"

	"keypool/shortener/destination"
)

func TestWithSchemeAddsHTTPSIfOnlySchemeIsMissing(t *testing.T) {
	t.Parallel()
	self := origin(t, "http://sho.rt")
	for raw, want := range map[string]string{
		"go.dev":                     "https://go.dev",
		" go.dev/doc?a=1#b\n":        "https://go.dev/doc?a=1#b",
		"//go.dev/doc":               "https://go.dev/doc",
		"localhost:8080/x":           "https://localhost:8080/x",
		"192.0.2.1/x":                "https://192.0.2.1/x",
		"bücher.example/ä":           "https://bücher.example/ä",
		"go.dev/?to=http:%2F%2Fx":    "https://go.dev/?to=http:%2F%2Fx",
		"":                           "",
		"example":                    "", // a word
		"example.":                   "",
		"tel:123":                    "",
		"mailto:someone@example.com": "",
		"javascript:alert(1.5)":      "",
		"ftp://example.com":          "",
		"https://example.com":        "", // the scheme is not missing
		"go .dev":                    "",
		`go.dev\x`:                   "",
		"go.dev/%zz":                 "",
		"sho.rt:81/abc":              "https://sho.rt:81/abc", // another port than this service
		"user@go.dev":                "",
	} {
		got, ok := destination.WithScheme(raw, self)
		if got != want || ok != (want != "") {
			t.Errorf("WithScheme(%q) is %q, %v; want %q", raw, got, ok, want)
		}
	}
	if got, ok := destination.WithScheme("sho.rt/abc", origin(t, "https://sho.rt")); ok {
		t.Errorf("WithScheme offers %q, which leads back to this service", got)
	}
}

func origin(t *testing.T, text string) destination.Origin {
	t.Helper()
	o, ok := destination.ParseOrigin(text)
	if !ok {
		t.Fatalf("%s is not an origin", text)
	}
	return o
}
