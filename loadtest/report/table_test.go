package report

import (
	"strings"
	"testing"
)

func TestTables(t *testing.T) {
	t.Parallel()
	table := Table{Title: "Two of them", Columns: []string{"what", "how many"}, Rows: [][]string{{"a|b\tc", "1"}, {"d", "100"}}}
	var text, markdown strings.Builder
	if err := table.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := table.WriteMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		text.String():     "Two of them\n\nwhat   how many\na|b c  1\nd      100\n",
		markdown.String(): "Two of them:\n\n| what | how many |\n|---|---|\n| a\\|b\tc | 1 |\n| d | 100 |\n",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	if got, want := wrap("- one two three", 9, "  "), "- one two\n  three"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
