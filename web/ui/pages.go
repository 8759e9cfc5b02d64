package ui

import (
	"html/template"
	"time"

	"github.com/dustin/go-humanize"

	"keypool/web/internal/shell"
)

// page is a template that is ready to be rendered.
type page struct{ *template.Template }

type pages struct{ list, link, unread, create, remove, signIn, message page }

// shellData is the data for the HTML before and after the main part of each page.
type shellData struct {
	*shell.Shell
	Base string
}

func parsePages() pages {
	return pages{
		list: parsePage("list.html"), link: parsePage("link.html", "visits.html"), unread: parsePage("unread.html"),
		create: parsePage("new.html"), remove: parsePage("delete.html"), signIn: parsePage("signin.html"), message: parsePage("message.html"),
	}
}

// parsePage parses a page and its parts. It panics if a file is missing or malformed, which is a programming error,
// because the files are embedded in the program.
func parsePage(name string, parts ...string) page {
	files := []string{"assets/" + name, "assets/parts.html", "assets/fields.html"}
	for _, part := range parts {
		files = append(files, "assets/"+part)
	}
	functions := template.FuncMap{"when": shell.When, "stamp": stamp, "comma": humanize.Comma}
	return page{template.Must(shell.Frame(template.New(name).Funcs(functions)).ParseFS(assets, files...))}
}

// stamp formats a time for programs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
