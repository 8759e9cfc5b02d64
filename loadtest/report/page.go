package report

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"keypool/internal/human"
	"strings"
	"time"
)

// Everything that the page is made of; it loads nothing from elsewhere.
//
//go:embed page
var page embed.FS

// HTML writes the report as one page that needs nothing else: no network, no scripts. It
// writes nothing when the page cannot be made.
func HTML(w io.Writer, r *Report) error {
	t, err := template.New("page.html").Funcs(functions()).ParseFS(page, "page/*")
	if err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, r.tidy()); err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	return nil
}

func functions() template.FuncMap {
	return template.FuncMap{
		"draw":     draws,
		"hues":     func() int { return hues },
		"mark":     mark,
		"number":   func(n int) string { return number(float64(n)) },
		"numeric":  numeric,
		"held":     held,
		"known":    func(s string) string { return cmp.Or(s, unknown) },
		"quantity": quantity,
		"ratio":    ratio,
		"series":   func(i int) string { return "series-" + fmt.Sprint(i%hues) },
		"took":     human.Duration,
		"when":     func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
		"wrong":    wrong,
	}
}

// drawn is a chart in both of its formats.
type drawn struct{ Wide, Narrow template.HTML }

// draws draws a chart. What it returns was made here: text in it went through an escape.
func draws(c Chart) (drawn, error) {
	broad, err := c.svg(wide())
	if err != nil {
		return drawn{}, err
	}
	slim, err := c.svg(narrow())
	if err != nil {
		return drawn{}, err
	}
	return drawn{template.HTML(broad), template.HTML(slim)}, nil //nolint:gosec // drawn here, names escaped by vgsvg
}

// held is what became of claims, in one line.
func held(t Tally) string {
	if t.Held+t.Failed == 0 {
		return "No claim was judged"
	}
	line := fmt.Sprintf("%d of %s held", t.Held, count(t.All(), "claim"))
	if t.Failed > 0 {
		line += fmt.Sprintf(", %d failed", t.Failed)
	}
	if t.NotJudged > 0 {
		line += fmt.Sprintf(", %d not judged", t.NotJudged)
	}
	return line
}

// wrong are the scenarios of which something failed, with nothing but that, and those of
// which nothing was judged that could have been.
func wrong(r *Report) []Scenario {
	var all []Scenario
	for i := range r.Scenarios {
		s := r.Scenarios[i]
		unjudged := s.unjudged()
		s.Claims = keep(s.Claims, func(c Claim) bool { return mark(c.Verdict).Class == "failed" || unjudged })
		if len(s.Claims) > 0 || s.Error != "" {
			all = append(all, s)
		}
	}
	return all
}

// shown is how a verdict looks; its sign tells it without its colour.
type shown struct{ Class, Sign, Word string }

func mark(v Verdict) shown {
	switch v {
	case Held:
		return shown{"held", "✓", "held"}
	case NotJudged:
		return shown{"unjudged", "–", "not judged"}
	case Failed:
		return shown{"failed", "✗", "failed"}
	}
	return shown{"failed", "✗", "no verdict"}
}

// numeric says that a column of a table holds figures, which stand at its right.
func numeric(t Table, column int) bool {
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
