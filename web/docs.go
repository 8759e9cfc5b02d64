package web

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/web/internal/apidoc"
	"keypool/web/internal/shell"
)

// docs renders the API description for people.
type docs struct {
	*shell.Shell
	*apidoc.Document
	Title    string // of the page; it hides the title of the description
	template *template.Template
}

// newDocs panics if the API description is malformed, because it is embedded in the program.
func newDocs(s *shell.Shell) *docs {
	d, err := apidoc.Parse(shell.Asset(assets, "assets/openapi.yaml"))
	if err != nil {
		panic(err)
	}
	return &docs{s, d, d.Title + " API", newTemplate("docs.html")}
}

// serve answers GET /docs.
func (d *docs) serve(c echo.Context) error {
	return d.Write(c.Response(), http.StatusOK, d.template, d)
}

// passage is a part of a description, either plain text or code.
type passage struct {
	Text string
	Code bool
}

// prose splits a description at its backticks, which enclose code. It returns the passages of
// each paragraph.
func prose(description string) [][]passage {
	var paragraphs [][]passage
	for paragraph := range strings.SplitSeq(strings.TrimSpace(description), "\n\n") {
		var passages []passage
		for i, text := range strings.Split(paragraph, "`") {
			if text != "" {
				passages = append(passages, passage{Text: text, Code: i%2 == 1})
			}
		}
		if passages != nil {
			paragraphs = append(paragraphs, passages)
		}
	}
	return paragraphs
}
