// Package shell renders the HTML pages of the public and the admin listener.
//
// A shell is the part that a set of pages shares: one inline style, one inline script, and a
// Content-Security-Policy that allows exactly these two. The frame is the HTML before and after
// the main part of a page.
//
// Invariant: a page loads nothing from another origin.
package shell

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

//go:embed assets
var shared embed.FS

// Shell holds the style and the script of a set of pages. A page template embeds them as
// {{.Style}} and {{.Script}}.
type Shell struct {
	Style   template.CSS
	Script  template.JS
	Version string // changes when the style or the script changes
	Footer  []Link // at the end of each page with the frame
	// Referrer is the Referrer-Policy. With the policy no-referrer, browsers send "Origin: null" with a
	// form.
	Referrer string
	policy   string
}

// Link is a link to a page of the same listener.
type Link struct{ Path, Text string }

// CopyScript is the name of a shared script with the function copy(button). The attribute data-copy of the
// button contains the id of an element. The function copies the text of this element.
const CopyScript = "assets/copy.js"

// New returns a shell. Its style consists of the shared style and the named styles. Its script consists of
// the named scripts. Each name is the path of a file in assets, or CopyScript. New panics if a file is
// missing, which is a programming error, because the files are embedded in the program.
func New(assets fs.FS, styles, scripts []string) *Shell {
	style := slices.Concat(Asset(shared, "assets/style.css"), join(assets, styles))
	script := join(assets, scripts)
	return &Shell{
		Style:  template.CSS(style), //nolint:gosec // from an embedded file and not from a request
		Script: template.JS(script), //nolint:gosec // from an embedded file and not from a request
		policy: "default-src 'none'; style-src '" + hash(style) + "'; script-src '" + hash(script) + "'; connect-src 'self'; " +
			"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		Version:  hash(slices.Concat(style, script)),
		Referrer: "no-referrer",
	}
}

func join(assets fs.FS, names []string) []byte {
	var all []byte
	for _, name := range names {
		from := assets
		if name == CopyScript {
			from = shared
		}
		all = append(all, Asset(from, name)...)
	}
	return all
}

// Frame adds the templates "head" and "foot" to t. The data of a page with these templates must embed a *Shell
// and have a Title. Frame panics if t was executed already.
func Frame(t *template.Template) *template.Template {
	return template.Must(t.ParseFS(shared, "assets/frame.html"))
}

// When formats a time for people. Pages also contain the time in RFC 3339 for programs.
func When(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// SplitURL returns the host and port of a URL, and what follows them.
func SplitURL(link string) (host, rest string) {
	_, host, _ = strings.Cut(link, "://")
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		return host[:i], host[i:]
	}
	return host, ""
}

// hash returns the expression with which a Content-Security-Policy allows an inline style or script (CSP
// Level 3 section 2.3.1).
func hash(source []byte) string {
	sum := sha256.Sum256(source)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Asset reads an embedded file. It panics if the file is missing, which is a programming
// error.
func Asset(assets fs.FS, name string) []byte {
	b, err := fs.ReadFile(assets, name)
	if err != nil {
		panic(err)
	}
	return b
}

// Favicon returns the icon of all pages. Its type is image/x-icon.
func Favicon() []byte { return Asset(shared, "assets/favicon.ico") }

// Write renders t with data and sends the result. If the rendering fails, nothing was sent
// and the caller can still answer with a 500. If the page cannot be sent, the error wraps
// [reply.ErrNotSent].
func (s *Shell) Write(w http.ResponseWriter, status int, t *template.Template, data any) error {
	page, err := Render(t, data)
	if err != nil {
		return err
	}
	return s.Send(w, status, page)
}

// Render executes t with data and returns the page.
func Render(t *template.Template, data any) ([]byte, error) {
	var buf bytes.Buffer
	err := t.Execute(&buf, data)
	return bytes.Clone(buf.Bytes()), err // the buffer may have twice the size of the page, and a slow client keeps the page in memory
}

// Send sends a page that was rendered. If the page cannot be sent, the error wraps [reply.ErrNotSent].
func (s *Shell) Send(w http.ResponseWriter, status int, page []byte) error {
	h := w.Header()
	h.Set("Content-Type", media.HTML+"; charset=utf-8")
	h.Set("Content-Security-Policy", s.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", s.Referrer)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	return reply.Send(w, status, page)
}
