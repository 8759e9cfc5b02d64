// Package ui serves pages on which people manage links: people list, search, create, change and delete links.
//
// Vocabulary:
//
//   - A person sends a request: the operator on the admin listener, or the user of a token on the public listener.
//   - An entrance authenticates a request, that is, determines the person who sent the request.
//   - The base is the path of the pages: /links on the admin listener, and /admin on the public listener.
//   - The stored values of a link are the values in the database. The seen values are the values that the server
//     put into the form. The typed values are the values that the person sends.
//
// Invariants:
//
//   - a person can see and change only permitted links, because each handler passes the person's [service.Actor] to the
//     service, which checks the permission;
//   - a request that could change something is accepted only if the browser says that a page of the same origin sent it;
//   - each page works without scripts;
//   - a refused form keeps the typed values.
package ui

import (
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/web/internal/qr"
	"keypool/web/internal/reply"
	"keypool/web/internal/shell"
)

//go:embed assets
var assets embed.FS

// Tokens knows the API tokens. [*token.Registry] implements it.
type Tokens interface {
	// Name returns the name of the token whose id is the parameter owner, even if the token is revoked. It returns "" if no
	// token has this id.
	Name(owner int64) string
	// Valid returns the tokens that are neither revoked nor expired, in the order of their names.
	Valid() []token.Token
}

// Limits counts the creations and misses of clients, and refuses a client that exceeds its limit. Config.Problem
// describes the errors of these methods.
type Limits interface {
	// Spend counts one creation with a token, or fails if the token has reached its limit.
	Spend(t token.Token) error
	// Admit fails while the address of the client has no misses left.
	Admit(r *http.Request) error
	// Missed counts a miss of the address: a failed sign-in, or an alias that belongs to another link.
	Missed(r *http.Request)
}

// Config holds what the pages need. Only Limits, Visits, Footer and Logger may be nil.
type Config struct {
	Service  *service.Service
	Base     string // "/links" or "/admin"
	Entrance Entrance
	Tokens   Tokens
	Origin   func(*http.Request) destination.Origin // origin of the short URLs; zero if it is unknown
	// Problem describes an error for people, and returns the seconds after which the client may try again.
	Problem func(error) (p reply.Problem, retry int)
	Limits  Limits                           // nil on the admin listener
	Visits  Visits                           // nil if visits are not counted
	Drawer  *qr.Drawer                       // draws QR codes; on the public listener, package web uses the same Drawer
	Client  func(*http.Request) netip.Prefix // the client that a QR code is drawn for
	Footer  []shell.Link
	Logger  *slog.Logger
}

// UI answers requests for the base and the paths below it. It is safe for concurrent use.
type UI struct {
	Config
	mux     *http.ServeMux
	shell   *shell.Shell
	pages   pages
	origins *http.CrossOriginProtection

	warnings rate.Sometimes // limits the log lines of warn
}

// New returns the pages.
func New(cfg Config) *UI {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Limits == nil {
		cfg.Limits = unlimited{}
	}
	u := &UI{
		Config: cfg, mux: http.NewServeMux(), pages: parsePages(), origins: http.NewCrossOriginProtection(),
		warnings: rate.Sometimes{Interval: time.Minute},
		shell:    shell.New(assets, []string{"assets/ui.css"}, []string{shell.CopyScript, "assets/ui.js"}),
	}
	u.shell.Footer = cfg.Footer
	u.shell.Referrer = "same-origin" // with no-referrer, browsers send "Origin: null", and every form would be refused
	u.route()
	return u
}

// unlimited implements Limits for the operator, who has no limits.
type unlimited struct{}

func (unlimited) Spend(token.Token) error   { return nil }
func (unlimited) Admit(*http.Request) error { return nil }
func (unlimited) Missed(*http.Request)      {}

// ServeHTTP implements [http.Handler].
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.mux.ServeHTTP(w, r) }

func (u *UI) route() {
	u.handle("GET /{$}", u.list)
	u.handle("GET /new", u.askCreate)
	u.handle("POST /new", u.create)
	u.handle("GET /code/{code}", u.show)
	u.handle("POST /code/{code}", u.change)
	u.handle("GET /code/{code}/delete", u.askDelete)
	u.handle("POST /code/{code}/delete", u.remove)
	u.handle("GET /code/{code}/qr.png", u.downloadPNG)
	u.handle("GET /code/{code}/qr.svg", u.downloadSVG)
	u.handle("/", func(*exchange) error { return errNoPage })
	u.mux.HandleFunc("GET "+u.Base+"/sign-in", u.open(u.askSignIn))
	u.mux.HandleFunc("POST "+u.Base+"/sign-in", u.open(u.signIn))
	u.mux.HandleFunc("POST "+u.Base+"/sign-out", u.open(u.signOut))
	u.mux.HandleFunc("GET "+u.Base, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, (&url.URL{Path: u.Base + "/", RawQuery: r.URL.RawQuery}).String(), http.StatusSeeOther)
	})
}

// maxBody is the maximum size of a form, in bytes. The form of a change sends each value twice, as the typed value and as
// the seen value. In the encoding of a form, a byte takes up to three bytes, such as %26, and a character has up to four
// bytes in UTF-8. So a URL of 2,048 bytes takes 3 x 2,048 = 6,144 bytes, a title of 200 characters 12 x 200 = 2,400 bytes,
// and 16 tags of 32 characters take 16 x (12 x 32 + 6) = 6,240 bytes with their line breaks. Twice these values are 29,568
// bytes. The rest of the form takes less than 400 bytes.
const maxBody = 32 << 10

// exchange is a request and the person who sent it.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	person person
}

// handle registers h for a path below the base. h gets only requests of known persons.
func (u *UI) handle(pattern string, h func(*exchange) error) {
	method, path, found := strings.Cut(pattern, " ")
	if !found {
		method, path = "", method
	}
	u.mux.HandleFunc(strings.TrimSpace(method+" "+u.Base+path), u.open(func(x *exchange) (err error) {
		if x.person, err = u.Entrance.enter(x.r); err != nil {
			return err
		}
		return h(x)
	}))
}

// open returns a handler that sets headers, refuses requests of pages of other origins, calls h and answers errors.
// It does not check who sent the request.
func (u *UI) open(h func(*exchange) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		x := &exchange{w: w, r: r}
		err := u.protect(w, r)
		if err == nil {
			err = h(x)
		}
		if err != nil {
			u.fail(x, err)
		}
	}
}

// protect refuses a request that could change something, unless a page of the same origin sent it. It parses the form.
func (u *UI) protect(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	// CrossOriginProtection accepts a request that has neither an Origin nor a Sec-Fetch-Site header. protect refuses
	// such a request, because browsers send Origin with each POST.
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return errForeign
	}
	if err := u.origins.Check(r); err != nil {
		return errForeign
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return err
		}
		return errForm
	}
	return nil
}

// fail answers a request that failed.
func (u *UI) fail(x *exchange, err error) {
	if errors.Is(err, errNoSession) && (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead) {
		http.Redirect(x.w, x.r, u.signInPath(x.r), http.StatusSeeOther)
		return
	}
	p := u.problem(x, err)
	u.send(x, p.Status, u.pages.message, &view{Title: p.Title, Problem: &p, Person: x.person})
}

// problem describes err for the person. It logs an error of the server (status 5xx), and sets Retry-After for 429 and 503.
func (u *UI) problem(x *exchange, err error) reply.Problem {
	if own, ok := errors.AsType[*pageError](err); ok {
		return reply.Problem{Title: own.title, Detail: own.detail, Status: own.status}
	}
	p, retry := u.Problem(err)
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		x.w.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	switch {
	case p.Status == http.StatusServiceUnavailable:
		u.warn(x, "answer the request", err)
	case p.Status >= http.StatusInternalServerError:
		u.Logger.Error("request for a page for links failed", "pattern", x.r.Pattern, "error", err)
	}
	return p
}

// warn logs that a task failed. It logs at most one failure a minute, because every request fails during an outage.
func (u *UI) warn(x *exchange, task string, err error) {
	u.warnings.Do(func() {
		u.Logger.Warn("request for a page for links failed", "task", task, "pattern", x.r.Pattern, "error", err)
	})
}

// send renders a page.
func (u *UI) send(x *exchange, status int, page page, v *view) {
	v.shellData = &shellData{u.shell, u.Base}
	if err := u.shell.Write(x.w, status, page.Template, v); err != nil && !errors.Is(err, reply.ErrNotSent) {
		u.Logger.Error("cannot render a page for links", "pattern", x.r.Pattern, "error", err)
		http.Error(x.w, "The server failed to render the page.", http.StatusInternalServerError)
	}
}

// redirect sends the browser to another page, with GET.
func (u *UI) redirect(x *exchange, path string) error {
	http.Redirect(x.w, x.r, path, http.StatusSeeOther)
	return nil
}
