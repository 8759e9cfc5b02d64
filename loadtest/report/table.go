package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// WriteText writes the table in columns, for a terminal.
func (t Table) WriteText(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + "\n\n") // a line without a cell ends the columns of a table
	}
	for _, cells := range t.lines() {
		for i, c := range cells {
			cells[i] = strings.Join(strings.Fields(c), " ") // a tab or a new line would end it
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(columns, b.String())
	if err = cmp.Or(err, columns.Flush()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// WriteMarkdown writes the table as one of GitHub's Markdown.
func (t Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + ":\n\n")
	}
	for i, cells := range t.lines() {
		b.WriteString("| " + strings.Join(escaped(cells), " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// lines are the head of the table and its rows, which the caller may change.
func (t Table) lines() [][]string {
	lines := make([][]string, 0, len(t.Rows)+1)
	for _, cells := range append([][]string{t.Columns}, t.Rows...) {
		lines = append(lines, append([]string(nil), cells...))
	}
	return lines
}

// escaped keeps what is in a cell from ending it, or from being taken for markup.
func escaped(cells []string) []string {
	r := strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)
	all := make([]string, len(cells))
	for i, c := range cells {
		all[i] = r.Replace(c)
	}
	return all
}

// Wrap breaks text into lines of at most width characters; all but the first are indented.
func Wrap(text string, width int, indent string) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > width:
			out.WriteString("\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += length
	}
	return out.String()
}
