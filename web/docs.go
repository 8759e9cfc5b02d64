package web

import (
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"keypool/web/internal/apidoc"
	"keypool/web/internal/shell"
)

// docs serves the API description for people.
type docs struct {
	*shell.Shell

	// page renders the page at the first request, and returns the same result at each later request. The program does
	// not render the page at its start, because the result would take memory even if no client requests the page.
	page func() ([]byte, error)
}

// docsView is what the template of the page shows.
type docsView struct {
	*shell.Shell
	*apidoc.Document
	Title string // title of the page; it hides Document.Title
}

func newDocs(s *shell.Shell) *docs {
	return &docs{Shell: s, page: sync.OnceValues(func() ([]byte, error) { return renderDocs(s) })}
}

// renderDocs renders the API description that is embedded in the program.
func renderDocs(s *shell.Shell) ([]byte, error) {
	d, err := apidoc.Parse(shell.Asset(assets, "assets/openapi.yaml"))
	if err != nil {
		return nil, err
	}
	return shell.Render(newTemplate("docs.html"), &docsView{Shell: s, Document: d, Title: d.Title + " API"})
}

// serve answers GET and HEAD of /docs. After an upgrade of Keypool, a browser may show the old page for an hour.
func (d *docs) serve(c echo.Context) error {
	page, err := d.page()
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=3600")
	return d.Send(c.Response(), http.StatusOK, page)
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
