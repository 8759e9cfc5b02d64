package report

import (
	"strings"
	"testing"
)

func sampleDocument() *Document {
	return &Document{Title: "A <plan>", Lead: "For 2 servers.", Sections: []Section{{
		Title: "Pool", Text: "It lasts <long>.",
		Charts: []Chart{{Title: "Keys", X: Axis{Label: "time", Unit: "h"}, Y: Axis{Label: "keys"}, Series: []Series{{Name: "left", XY: [][2]float64{{0, 10}, {5, 0}}}}}},
		Tables: []Table{
			{Columns: []string{"year", "links"}, Rows: [][]string{{"1", "5"}, {"10", "1,234"}}},
			{Columns: []string{"", ""}, Rows: [][]string{{"capacity", "10 keys"}}},
		},
	}, {Title: "Empty"}}}
}

func TestDocumentPageHasChartsAndTables(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := sampleDocument().HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<title>A &lt;plan&gt;</title>", "<h1>A &lt;plan&gt;</h1>", "For 2 servers.", "It lasts &lt;long&gt;.", "<svg", "var(--series-0)", `<th class="figure">year</th>`,
		`<td class="figure">1,234</td>`, "<td>capacity</td>", "</html>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if n := strings.Count(page, "<thead>"); n != 1 {
		t.Errorf("%d tables have a head, want 1", n)
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "<caption>") {
		t.Error("the page has a script or an empty caption")
	}
}

func TestDocumentTextHasAlignedTables(t *testing.T) {
	t.Parallel()
	const want = `A <plan>
For 2 servers.

Pool
It lasts <long>.
  year  links
  1     5
  10    1,234
  capacity  10 keys

Empty
`
	var b strings.Builder
	if err := sampleDocument().WriteText(&b); err != nil || b.String() != want {
		t.Errorf("WriteText returns the error %v and writes\n%s\nwant\n%s", err, &b, want)
	}
}

func TestLongParagraphIsWrapped(t *testing.T) {
	t.Parallel()
	long, word := strings.Repeat("x", lineWidth+1), strings.Repeat("y", lineWidth/2)
	got := wrapped("a " + word + " " + word + " b " + long + " c")
	if want := "a " + word + "\n" + word + " b\n" + long + "\nc\n"; got != want {
		t.Errorf("the wrapped paragraph is\n%s\nwant\n%s", got, want)
	}
}
