package report

import (
	"strings"
	"testing"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Markdown(&b, sample()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"## Comparison of pools, 2026-11-24, `bin/loadtest run", "commit fd22103; 3 min 12 s. 5 of 7 claims held, 1 failed, 1 not judged.",
		"### A thousand creations a second", "|---|", "- **failed**: ", "- **not judged**: ", "- **It did not run to its end**: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if length := len([]rune(line)); length > markdownWidth+1 && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "#") {
			t.Errorf("%d characters in a line: %s", length, line)
		}
	}
}
