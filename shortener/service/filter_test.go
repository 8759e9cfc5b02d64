package service

import (
	"strings"
	"testing"
	"time"

	"keypool/shortener"
)

// The text of a filter comes from a client and can be long. So it must not be converted to lower case again for each link.
func TestFilterConvertsTextToLowerCaseOnce(t *testing.T) {
	links := make([]shortener.Link, 100)
	for i := range links {
		links[i] = shortener.Link{Code: "abc", URL: "https://go.dev/"}
	}
	now := time.Now()
	for text, want := range map[string]int{strings.Repeat("Ж", 8000): 0, "GO.dev": len(links), "": len(links)} {
		filter := Filter{Text: text}
		var got int
		allocs := testing.AllocsPerRun(3, func() { got = len(filter.among(links, now)) })
		if got != want {
			t.Errorf("a text of %d bytes selects %d links, want %d", len(text), got, want)
		}
		if allocs > 20 {
			t.Errorf("a filter with a text of %d bytes allocates memory %v times for %d links", len(text), allocs, len(links))
		}
	}
}
