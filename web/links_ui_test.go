package web

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"keypool/internal/testenv/browser"
	"keypool/shortener/service"
	"keypool/shortener/token"
)

// uiSite is a public listener with pages for links, and the pages of the admin listener for the same links.
type uiSite struct {
	*tokenSite
	admin string // URL of the pages on the admin listener
}

func newUISite(t *testing.T, header string, change func(*PublicConfig)) *uiSite {
	t.Helper()
	var counted *Visits
	s := &uiSite{tokenSite: changedTokenSite(t, func(c *PublicConfig, registry *token.Registry) {
		c.UI = &UIConfig{Tokens: registry, UserHeader: header}
		if change != nil {
			change(c)
		}
		counted = c.Visits
	})}
	// The client does not check exchanges with contract, because openapi.yaml does not describe the pages.
	s.client.Transport = s.client.Transport.(*contract).next
	pages := NewAdminUI(AdminUIConfig{Service: s.service, Tokens: s.registry, BaseURL: s.url, Visits: counted})
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	s.admin = server.URL + "/links"
	return s
}

// bearer creates a token and returns its text.
func (s *uiSite) bearer(t *testing.T, name string, scopes token.Scopes) string {
	t.Helper()
	_, authorization := s.issue(t, token.Token{Name: name, Scopes: scopes})
	return strings.TrimPrefix(authorization, "Bearer ")
}

const ownScopes = token.ScopeCreate | token.ScopeRead | token.ScopeEdit

// signIn signs in with a token.
func signIn(url, bearer string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		chromedp.Navigate(url+"/admin/"),
		chromedp.SendKeys(chromedp.CSS("#token"), bearer+kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("#list-title")),
	)
}

// submit is the button of the form that creates or changes a link.
const submit = "#submit"

func withoutScripts() chromedp.Action[chromedp.Void] {
	return browser.Emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

func setValue(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.SetValue(chromedp.CSS(selector), value))
}

// A person creates a link, finds the link again, changes it and deletes it, with scripts and without.
func TestPersonManagesLinksOnUIPages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ admin, scripts bool }{
		"public listener with scripts": {false, true}, "public listener without scripts": {false, false}, "admin listener without scripts": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := newUISite(t, "", nil), browser.New(t)
			bearer := s.bearer(t, "alice", ownScopes)
			if !tt.scripts {
				b.Do(withoutScripts())
			}
			base := s.admin
			if tt.admin {
				b.Do(chromedp.Navigate(base))
			} else {
				base = s.url + "/admin"
				b.Do(signIn(s.url, bearer))
			}
			b.Screenshot("empty")
			b.Do(
				chromedp.Click(chromedp.CSS(".empty a")),
				chromedp.WaitVisible(chromedp.CSS("#url")),
				chromedp.SendKeys(chromedp.CSS("#url"), "go.dev/doc"),
				chromedp.SendKeys(chromedp.CSS("#title"), "Documentation"),
				chromedp.SendKeys(chromedp.CSS("#alias"), "docs"),
				chromedp.SendKeys(chromedp.CSS("#tags"), "go"+kb.Enter+"doc, all"),
				chromedp.Click(chromedp.CSS("[name=editable]")),
				chromedp.Click(chromedp.CSS(submit)),
			)
			if tt.admin {
				b.Do(chromedp.WaitVisible(chromedp.CSS("#owner-error"))) // only the link of a token has a title
				b.Screenshot("owner")
				b.Do(chromedp.SendKeys(chromedp.CSS("#owner"), "alice"), chromedp.Click(chromedp.CSS(submit)))
			}
			b.Do(chromedp.WaitVisible(chromedp.CSS("#url-offer"))) // the scheme is missing
			b.Screenshot("scheme")
			b.Do(
				chromedp.Click(chromedp.CSS(submit)),
				chromedp.WaitVisible(chromedp.CSS("#alias-error")), // the alias docs is reserved
			)
			b.Screenshot("reserved")
			b.Do(
				setValue("#alias", "go-docs"),
				chromedp.Click(chromedp.CSS(submit)),
				chromedp.WaitVisible(chromedp.CSS("#short")),
			)
			if short := browser.Of(b, chromedp.Text(chromedp.CSS("#short"))); short != s.url+"/go-docs" {
				t.Errorf("the page shows the short URL %q", short)
			}
			redirects(t, s.site, s.url+"/go-docs", "https://go.dev/doc")
			b.Do(
				chromedp.Navigate(base+"/?q=DOCUMENTATION&tag=doc%2C+all&host=go.dev"),
				chromedp.Click(chromedp.CSS(".list .code")),
				chromedp.WaitVisible(chromedp.CSS("#edit-title")),
			)
			if tags := browser.Of(b, chromedp.Value(chromedp.CSS("#tags"))); tags != "go\ndoc, all" {
				t.Errorf("the tags are %q", tags)
			}
			b.Do(
				setValue("#url", "https://go.dev/ref/spec"),
				setValue("#expires_at", "2099-12-31T23:59:59"),
				chromedp.Click(chromedp.CSS(submit)),
				chromedp.WaitVisible(chromedp.CSS(".flash")),
			)
			redirects(t, s.site, s.url+"/go-docs", "https://go.dev/ref/spec")
			b.Screenshot("link")
			b.Do(
				chromedp.Click(chromedp.CSS(".danger")),
				chromedp.WaitVisible(chromedp.CSS("#delete-title + p b")), // #delete-title alone is also on the page of the link
			)
			b.Screenshot("delete")
			b.Do(
				chromedp.Click(chromedp.CSS("main section .danger")),
				chromedp.WaitVisible(chromedp.CSS("#list-title")),
			)
			if r := s.do(t, http.MethodGet, "/go-docs", ""); r.status != http.StatusGone {
				t.Errorf("the deleted link has status %d, want 410", r.status)
			}
		})
	}
}

// The operator can choose each token as the owner of a link. Browsers collapse white space in the text of an option, so two
// names that differ only in white space look the same.
func TestOperatorCanChooseOwnersWithSimilarNames(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	one, oneBearer := s.issue(t, token.Token{Name: "team x", Scopes: ownScopes})
	two, twoBearer := s.issue(t, token.Token{Name: "team  x", Scopes: ownScopes})
	s.poll(t)
	for alias, owner := range map[string]struct {
		id                   int64
		authorization, other string
	}{"one": {one.ID, oneBearer, twoBearer}, "two": {two.ID, twoBearer, oneBearer}} {
		b.Do(
			chromedp.Navigate(s.admin+"/new"),
			chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev/"),
			setValue("#alias", alias),
			setValue("#owner", strconv.FormatInt(owner.id, 10)),
			chromedp.Click(chromedp.CSS(submit)),
			chromedp.WaitVisible(chromedp.CSS("#short")),
		)
		for authorization, status := range map[string]int{owner.authorization: http.StatusOK, owner.other: http.StatusNotFound} {
			if r := s.do(t, http.MethodGet, "/api/links/"+alias, "", "Authorization", authorization); r.status != status {
				t.Errorf("GET of the link %s has status %d, want %d", alias, r.status, status)
			}
		}
	}
}

// heldWriter is the answer to a client that does not read. Each Write calls begun, and then blocks until held is closed.
type heldWriter struct {
	*httptest.ResponseRecorder
	begun func()
	held  <-chan struct{}
}

func (w *heldWriter) Write(p []byte) (int, error) {
	w.begun()
	<-w.held
	return w.ResponseRecorder.Write(p)
}

// A page of links is in memory until the client has received it, so it occupies a slot for this time.
func TestPageOfListOccupiesSlotUntilItIsSent(t *testing.T) {
	t.Parallel()
	const slots = 4 // of one actor
	s := newUISite(t, "", nil)
	pages := NewAdminUI(AdminUIConfig{Service: s.service, Tokens: s.registry, BaseURL: s.url})
	begun, held := make(chan struct{}, slots), make(chan struct{})
	var clients sync.WaitGroup
	for range slots {
		clients.Go(func() {
			w := &heldWriter{httptest.NewRecorder(), sync.OnceFunc(func() { begun <- struct{}{} }), held}
			pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/links/", nil))
			if w.Code != http.StatusOK {
				t.Errorf("the list of links has status %d, want 200", w.Code)
			}
		})
	}
	for range slots {
		<-begun
	}
	operator := service.Actor{Admin: true}
	if end, err := s.service.BeginAnswer(t.Context(), operator); err == nil {
		end()
		t.Error("a further answer has a slot while all slots are occupied")
	}
	close(held)
	clients.Wait()
	end, err := s.service.BeginAnswer(t.Context(), operator)
	if err != nil {
		t.Fatalf("an answer after the clients received the lists: %v", err)
	}
	end()
}
