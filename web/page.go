package web

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/api"
	"keypool/web/client"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
	"keypool/web/internal/shell"
)

//go:embed assets
var assets embed.FS

// pages renders the public page: the form, a created link, a preview, or a problem.
type pages struct {
	template *template.Template
	shell    *shell.Shell
	limits   client.Limits // if a creation needs a token, the page explains this and shows no form
	report   string        // ReportURL
	proxies  *client.Proxies
}

// view is the data of the template. The template omits each part that is nil.
type view struct {
	*shell.Shell
	Title   string
	Host    string // precedes the code in a short URL
	Form    *entered
	Expires []choice // the choices of the expiry field
	Tokens  bool     // whether the page explains how to create a link with a token
	Problem *reply.Problem
	Created *api.Link
	Preview *preview
	Report  string // where a person reports the link of Preview, or ""
	Welcome *welcome
}

// entered holds the values that the form shows in its fields.
type entered struct {
	URL, Alias, ExpiresIn string
	Completed             bool // the page added the scheme of URL, and the person has not confirmed it yet
}

// enteredOf returns the values of a request. If the URL of the request lacks its scheme, the form
// offers the complete URL.
func enteredOf(r shortener.Request) *entered {
	e := &entered{URL: r.URL, Alias: text(r.Alias), ExpiresIn: text(r.ExpiresIn)}
	if complete, ok := destination.WithScheme(r.URL, r.Self); ok {
		e.URL, e.Completed = complete, true
	}
	return e
}

// maxEntered is the maximum length of a value that the page repeats, in bytes. No URL and no alias that a creation
// accepts is longer. Without this limit, a page could be several times as large as the request.
const maxEntered = 2048

// limit removes the values that are longer than maxEntered.
func (e *entered) limit() {
	for _, value := range []*string{&e.URL, &e.Alias, &e.ExpiresIn} {
		if len(*value) > maxEntered {
			*value = ""
		}
	}
}

// With returns the address of the page that shows the form with these values and another alias.
func (e *entered) With(alias string) string {
	q := url.Values{"url": {e.URL}, "alias": {alias}}
	if e.ExpiresIn != "" {
		q.Set("expires_in", e.ExpiresIn)
	}
	return "/?" + q.Encode()
}

// Wrong returns the error of a form field, or "" if the field has no error. If the page added the scheme of the URL, it asks
// the person to confirm the URL, and the field url has no error. Wrong("") returns an error that concerns no form field.
func (v *view) Wrong(field string) string {
	if v.Problem == nil {
		return ""
	}
	at := v.Problem.Field
	if at != "url" && at != "alias" && at != "expires_in" {
		at = ""
	}
	if at != field || (field == "url" && v.Form != nil && v.Form.Completed) {
		return ""
	}
	return v.Problem.Labelled(map[string]string{"url": "The link", "alias": "The alias", "expires_in": "The expiry"}[field])
}

// Suggestions returns the free aliases that the page offers instead of an alias that is taken.
func (v *view) Suggestions() []string {
	if v.Problem == nil {
		return nil
	}
	return v.Problem.Suggestions
}

func newPages(limits client.Limits, report string, proxies *client.Proxies) *pages {
	s := shell.New(assets, []string{"assets/page.css"}, []string{
		"assets/recent.js", shell.CopyScript, "assets/share.js", "assets/page.js", // page.js runs the other scripts
	})
	s.Footer = []shell.Link{{Path: "/docs", Text: "API"}, {Path: "/openapi.yaml", Text: "OpenAPI description"}}
	return &pages{limits: limits, report: report, proxies: proxies, template: newTemplate("page.html", "parts.html"), shell: s}
}

// newTemplate parses a page and the parts that it includes. It panics if a file is missing or
// malformed, which is a programming error, because the files are embedded in the program.
func newTemplate(page string, parts ...string) *template.Template {
	files := []string{"assets/" + page}
	for _, part := range parts {
		files = append(files, "assets/"+part)
	}
	functions := template.FuncMap{"when": shell.When, "host": hostOf, "prose": prose}
	return template.Must(shell.Frame(template.New(page).Funcs(functions)).ParseFS(assets, files...))
}

// home answers GET and HEAD of /. The parameters of the request fill the form, but do not create a link. The bookmarklet
// sends the parameter url. A request with this parameter gets the form even if homeURL is set.
func (p *public) home(c echo.Context) error {
	if c.QueryParam("url") == "" && refers(c, p.homeURL) {
		return refer(c, p.homeURL)
	}
	if p.homeURL != "" { // the answer depends on the Accept header
		c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	}
	self := p.proxies.Origin(c.Request())
	form := &entered{URL: c.QueryParam("url"), Alias: c.QueryParam("alias"), ExpiresIn: c.QueryParam("expires_in")}
	v := &view{Title: "Keypool", Host: hostOf(self.String()), Form: form, Welcome: newWelcome(self)}
	_, err := p.pages.life(form.ExpiresIn)
	if len(form.URL) > maxEntered {
		err = &shortener.InvalidError{Field: "url", Reason: fmt.Sprintf("must be at most %d bytes long", maxEntered)}
	}
	if err != nil && !p.limits.TokensOnly {
		v.Problem = new(problem.Of(err))
	}
	return p.pages.write(c, http.StatusOK, v)
}

func (p *pages) created(c echo.Context, status int, a *api.Link) error {
	return p.write(c, status, &view{
		Title: "Your short link - Keypool", Host: hostOf(a.ShortURL), Created: a, Form: &entered{},
	})
}

func (p *pages) preview(c echo.Context, a *preview) error {
	return p.write(c, http.StatusOK, &view{Title: "Preview of " + a.Code + " - Keypool", Preview: a, Report: reportLink(p.report, a)})
}

// problem shows an error. If a creation failed, the page shows the error in the form, with
// the values that the person entered.
func (p *pages) problem(c echo.Context, pr reply.Problem) error {
	v := &view{Title: pr.Title + " - Keypool", Problem: &pr}
	if c.Path() == api.RouteShorten && c.Request().Method == http.MethodPost {
		v.Host = hostOf(p.proxies.Origin(c.Request()).String())
		v.Form = &entered{}
		if r, ok := api.Sent(c); ok {
			v.Form = enteredOf(r)
		}
	}
	return p.write(c, pr.Status, v)
}

func (p *pages) write(c echo.Context, status int, v *view) error {
	v.Shell = p.shell
	if v.Form != nil {
		v.Form.limit()
		v.Expires = p.expires(v.Form.ExpiresIn)
	}
	if p.limits.TokensOnly && v.Form != nil { // a form cannot send a token in the Authorization header
		v.Form, v.Tokens = nil, v.Problem == nil && v.Created == nil
	}
	return p.shell.Write(c.Response(), status, p.template, v)
}

// hostOf returns the host and port of a URL.
func hostOf(link string) string {
	host, _ := shell.SplitURL(link)
	return host
}

// text returns the value of a field, or "" if the field is absent.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
