package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Everything that a page is made of; nothing is loaded from elsewhere.
//
//go:embed assets
var assets embed.FS

// asset reads an embedded file; that one is missing cannot happen at run time.
func asset(name string) []byte {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// pages renders the public page in its states: the form, a link that was made, a
// preview, and what went wrong.
type pages struct {
	template *template.Template
	shell    *shell
}

// view is what the template shows; a part that is nil is left out.
type view struct {
	*shell
	Title   string
	Host    string // what precedes the code in a short URL
	Form    *entered
	Problem *problem
	Created *answer
	Preview *answer
}

// entered is what a form is filled with when it is shown again.
type entered struct{ URL, Alias, ExpiresIn string }

// Choice is one option of the expiry field.
type Choice struct{ Value, Label string }

// Expiries are the choices of the form; the API takes any duration.
func (v *view) Expiries() []Choice {
	return []Choice{
		{"", "Never"}, {"1h", "After an hour"}, {"24h", "After a day"}, {"168h", "After a week"},
		{"720h", "After 30 days"}, {"8760h", "After a year"},
	}
}

// Wrong gives what is wrong with a field of the form, or "". Called with "" it gives
// what is wrong with none of its fields.
func (v *view) Wrong(field string) string {
	if v.Problem == nil {
		return ""
	}
	at := v.Problem.Field
	if at != "url" && at != "alias" && at != "expires_in" {
		at = ""
	}
	if at != field {
		return ""
	}
	// The API speaks of members, a person sees labels.
	label := map[string]string{"url": "The link ", "alias": "The alias ", "expires_in": "The expiry "}[field]
	if reason, ok := strings.CutPrefix(v.Problem.Detail, field+" "); ok && field != "" {
		return label + reason
	}
	return v.Problem.Detail
}

func newPages() *pages {
	return &pages{
		template: template.Must(template.New("page.html").
			Funcs(template.FuncMap{"when": when}).ParseFS(assets, "assets/page.html")),
		shell: newShell([]string{"style.css"}, []string{"page.js"}),
	}
}

// when shows a time to people; machines get RFC 3339 beside it.
func when(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// home is GET /.
func (p *public) home(c echo.Context) error {
	host := hostOf(p.origin.of(c.Request()).String())
	return p.pages.write(c, http.StatusOK, &view{Title: "Keypool", Host: host, Form: &entered{}})
}

func (p *pages) created(c echo.Context, status int, a *answer) error {
	return p.write(c, status, &view{
		Title: "Your short link - Keypool", Host: hostOf(a.ShortURL), Created: a, Form: &entered{},
	})
}

func (p *pages) preview(c echo.Context, a *answer) error {
	return p.write(c, http.StatusOK, &view{Title: "Preview of " + a.Code + " - Keypool", Preview: a})
}

// problem shows an error: of a creation at the form, with all that was entered.
func (p *pages) problem(c echo.Context, o *origin, pr problem) error {
	v := &view{Title: pr.Title + " - Keypool", Problem: &pr}
	if c.Path() == routeShorten && c.Request().Method == http.MethodPost {
		v.Host = hostOf(o.of(c.Request()).String())
		v.Form = &entered{}
		if f, ok := c.Get(formKey).(fields); ok {
			v.Form = &entered{URL: text(f.url), Alias: text(f.alias), ExpiresIn: text(f.expiresIn)}
		}
	}
	return p.write(c, pr.Status, v)
}

func (p *pages) write(c echo.Context, status int, v *view) error {
	v.shell = p.shell
	return p.shell.write(c.Response(), status, p.template, v)
}

// hostOf is what a page shows of a URL of this service: as people read it aloud.
func hostOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	host, _, _ = strings.Cut(host, "/")
	return host
}

// text is what a form shows of a field, "" of one that was not given.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shell is what all pages share: a style, a script, and the policy under which a browser
// runs these two and nothing else.
type shell struct {
	Style   template.CSS
	Script  template.JS
	policy  string
	version string // changes with either
}

// newShell puts the named assets together.
func newShell(styles, scripts []string) *shell {
	style, script := joined(styles), joined(scripts)
	return &shell{
		Style:  template.CSS(style), //nolint:gosec // embedded, not input
		Script: template.JS(script), //nolint:gosec // embedded, not input
		policy: "default-src 'none'; style-src '" + hash(style) + "'; script-src '" + hash(script) + "'; connect-src 'self'; " +
			"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		version: hash(slices.Concat(style, script)),
	}
}

func joined(names []string) []byte {
	var all []byte
	for _, name := range names {
		all = append(all, asset(name)...)
	}
	return all
}

// hash names an inline source in a policy (CSP Level 3 section 2.3.1).
func hash(source []byte) string {
	sum := sha256.Sum256(source)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// write renders before it sends, so that a failure can still become a 500.
func (s *shell) write(w http.ResponseWriter, status int, t *template.Template, data any) error {
	var buf bytes.Buffer
	if err := t.Execute(&buf, data); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", mediaHTML+"; charset=utf-8")
	h.Set("Content-Security-Policy", s.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	w.WriteHeader(status)
	_, err := w.Write(buf.Bytes())
	return err
}
