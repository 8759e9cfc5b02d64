package report

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"
)

// The page is made of these files alone.
//
//go:embed page
var page embed.FS

// HTML writes the report as one page that needs no network and no scripts. It writes nothing when the
// page cannot be made.
func HTML(w io.Writer, r *Report) error {
	var b bytes.Buffer
	t, err := template.New("page.html").Funcs(functions(r)).ParseFS(page, "page/*")
	if err == nil {
		err = t.Execute(&b, r.tidy())
	}
	if err == nil {
		_, err = b.WriteTo(w)
	}
	return written("report page", err)
}

func functions(r *Report) template.FuncMap {
	return template.FuncMap{
		"class":    class,
		"count":    count,
		"draw":     drawBoth,
		"known":    func(s string) string { return cmp.Or(s, unknown) },
		"numeric":  Table.numeric,
		"quantity": quantity,
		"ratio":    ratio,
		"series":   func(i int) string { return "series-" + strconv.Itoa(i%hues) },
		"title":    r.title,
		"took":     took,
		"verdict":  func(e Experiment) Verdict { return e.Verdict(r.Strict) },
		"when":     func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	}
}

// class is the class of the style sheet for the word of a verdict or an outcome.
func class(word string) string { return strings.ToLower(strings.ReplaceAll(word, " ", "-")) }

// Illustrated are the experiments with a chart.
func (r *Report) Illustrated() []Experiment {
	return keep(r.Experiments, func(e Experiment) bool { return len(e.Charts) > 0 })
}

// Plain are the experiments without a chart.
func (r *Report) Plain() []Experiment {
	return keep(r.Experiments, func(e Experiment) bool { return len(e.Charts) == 0 })
}

// drawn is a chart in both formats.
type drawn struct{ Wide, Narrow template.HTML }

func drawBoth(c Chart) (drawn, error) {
	broad, err := c.svg(wide())
	if err != nil {
		return drawn{}, err
	}
	slim, err := c.svg(narrow())
	return drawn{template.HTML(broad), template.HTML(slim)}, err //nolint:gosec // drawn here; vgsvg escapes names
}
