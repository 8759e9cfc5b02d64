package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// page contains all files that the page is made of.
//
//go:embed page
var page embed.FS

// HTML writes the report as one page that needs no network and no scripts. It writes nothing if the
// template fails.
func HTML(w io.Writer, r *Report) error { return execute(w, "page.html", r) }

// execute fills a template with data and writes the page. The parameter name is the name of the template.
// If the template fails, execute writes nothing.
func execute(w io.Writer, name string, data any) error {
	var b bytes.Buffer
	t, err := template.New(name).Funcs(template.FuncMap{
		// class returns the CSS class of a verdict or an outcome.
		"class":    func(word any) string { return strings.ToLower(strings.ReplaceAll(fmt.Sprint(word), " ", "-")) },
		"count":    count,
		"draw":     Chart.draw,
		"moments":  Chart.moments,
		"numeric":  Table.numeric,
		"quantity": quantity,
		"ratio":    ratio,
		"series":   func(i int) string { return fmt.Sprintf("series-%d", i%hues) },
		"number":   func(i int) int { return i + 1 },
		"took":     took,
	}).ParseFS(page, "page/*")
	if err == nil {
		err = t.Execute(&b, data)
	}
	if err == nil {
		_, err = b.WriteTo(w)
	}
	return written("report page", err)
}
