package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Document is a text with charts and tables, such as a plan or a simulation. It is not the report of a
// run.
type Document struct {
	Title, Lead string
	Sections    []Section
}

// Printable is a result that is printed as a Document.
type Printable interface {
	HTML(io.Writer) error
	WriteText(io.Writer) error
}

// Section is a part of a Document.
type Section struct {
	Title  string
	Text   string // one paragraph; may be empty
	Charts []Chart
	Tables []Table
}

// HTML writes the document as one page that needs no network and no scripts.
func (d *Document) HTML(w io.Writer) error { return execute(w, "document.html", d) }

// WriteText writes the document for a terminal, without the charts.
func (d *Document) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", d.Title, d.Lead)
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n%s\n", s.Title)
		if s.Text != "" {
			b.WriteString(wrapped(s.Text))
		}
		for _, t := range s.Tables {
			b.WriteString(t.aligned())
		}
	}
	_, err := io.WriteString(w, b.String())
	return written("document", err)
}

// WriteIndented writes v as indented JSON, for readers and for programs.
func WriteIndented(w io.Writer, v any) error {
	err := json.MarshalWrite(w, v, jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	return written("JSON", err)
}

// Facts returns a table with two columns. cells contains a name and then its value, for each row.
func Facts(cells ...string) Table {
	return Table{Columns: []string{"", ""}, Rows: slices.Collect(slices.Chunk(cells, 2))}
}

// Headed reports whether a column of the table has a name.
func (t Table) Headed() bool { return strings.Join(t.Columns, "") != "" }

// aligned returns the table in columns for a terminal.
func (t Table) aligned() string {
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		_, _ = fmt.Fprintf(out, "  %s\n", strings.Join(cells, "\t")) // a strings.Builder returns no error
	}
	if t.Headed() {
		line(t.Columns)
	}
	for _, row := range t.Rows {
		line(row)
	}
	_ = out.Flush() // a strings.Builder returns no error
	return b.String()
}

// lineWidth is the greatest length of a line in the result of the function wrapped. A line
// with a single word may be longer.
const lineWidth = 100

// wrapped returns a paragraph with line breaks.
func wrapped(paragraph string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(paragraph) {
		switch {
		case column == 0:
		case column+1+len(word) > lineWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}
