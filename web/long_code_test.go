package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"keypool/shortener"
)

// An imported link may have a code of 64 characters. A creation may not choose such a long alias.
func TestImportedLinkWithCodeOf64CharactersIsServed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	long := strings.Repeat("Long_code-", 7)[:64]
	s.insert(t, shortener.Link{Code: long, URL: "https://example.com/", Source: shortener.SourceImport, CreatedAt: time.Now().UTC()})
	for path, status := range map[string]int{
		"/" + long:          http.StatusFound,
		"/" + long + "+":    http.StatusOK,
		"/" + long + ".svg": http.StatusOK,
		"/" + long + ".png": http.StatusOK,
		"/" + long + "x":    http.StatusNotFound,
	} {
		if r := s.do(t, http.MethodGet, path, ""); r.status != status {
			t.Errorf("GET %s: status %d, want %d", path, r.status, status)
		}
	}
	if r := s.create(t, `{"url":"https://example.com/","alias":"`+long[:17]+`"}`); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a creation with an alias of 17 characters: status %d, want 422", r.status)
	}
}
