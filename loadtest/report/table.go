package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// WriteText writes the table in columns for a terminal.
func (t Table) WriteText(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + "\n\n") // the empty line keeps the title out of the columns
	}
	for _, cells := range t.lines() {
		for i, c := range cells {
			cells[i] = strings.Join(strings.Fields(c), " ") // a tab or a line end would end the cell
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(columns, b.String())
	return written("table", cmp.Or(err, columns.Flush()))
}

// WriteMarkdown writes the table in GitHub's Markdown.
func (t Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + ":\n\n")
	}
	// A cell must not end itself or turn into markup.
	escape := strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)
	for i, cells := range t.lines() {
		b.WriteString("| " + escapeAll(escape, cells) + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return written("table", err)
}

func escapeAll(r *strings.Replacer, cells []string) string {
	for i, c := range cells {
		cells[i] = r.Replace(c)
	}
	return strings.Join(cells, " | ")
}

// lines are copies of the head and the rows.
func (t Table) lines() [][]string {
	return convert(append([][]string{t.Columns}, t.Rows...), func(row []string) []string {
		return append([]string(nil), row...)
	})
}

// numeric reports whether a column holds figures, which the page aligns to the right.
func (t Table) numeric(column int) bool {
	some := false
	for _, row := range t.Rows {
		if column >= len(row) || row[column] == "" || row[column] == nothing {
			continue
		}
		if !strings.ContainsAny(row[column][:1], "0123456789-+.") {
			return false
		}
		some = true
	}
	return some
}

// wrap breaks text into lines of at most width characters. All lines but the first are indented.
func wrap(text string, width int, indent string) string {
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

// written adds to err what could not be written.
func written(what string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
