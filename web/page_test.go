package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"keypool/internal/testenv/browser"
)

// redirects checks that a short URL leads to want.
func redirects(t *testing.T, s *site, short, want string) {
	t.Helper()
	r := s.do(t, http.MethodGet, strings.TrimPrefix(short, s.url), "")
	if r.status != http.StatusFound || r.header.Get("Location") != want {
		t.Errorf("GET of %s has status %d (want 302) and Location %q", short, r.status, r.header.Get("Location"))
	}
}

func TestPageCreatesLink(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	const want = "https://go.dev/doc/effective_go"
	b.Do(
		chromedp.Navigate(s.url),
		browser.Becomes(`document.activeElement.id === "url"`),
		chromedp.SendKeys(chromedp.CSS("#url"), want+kb.Enter),
		browser.Becomes(`document.activeElement.id === "result-title"`),
	)
	redirects(t, s, browser.Of(b, chromedp.Text(chromedp.CSS("#short"))), want)
	b.Screenshot("created")
}

// Without scripts, the form works and the answer is a new page.
func TestPageWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	const want = "https://go.dev/"
	b.Do(
		browser.Emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(s.url),
		chromedp.SendKeys(chromedp.CSS("#url"), want),
		chromedp.Click(chromedp.CSS("summary")),
		chromedp.SendKeys(chromedp.CSS("#alias"), "no-script"),
		chromedp.Click(chromedp.CSS("form button")),
		chromedp.WaitVisible(chromedp.CSS("#short")),
		chromedp.WaitNotVisible(chromedp.CSS("[data-copy]")),
	)
	if short := browser.Of(b, chromedp.Text(chromedp.CSS("#short"))); short != s.url+"/no-script" {
		t.Errorf("the short URL is %q", short)
	}
	redirects(t, s, s.url+"/no-script", want)
	b.Do(chromedp.Click(chromedp.CSS(`a[href$="+"]`)), chromedp.WaitVisible(chromedp.CSS(".target")))
	if target := browser.Of(b, chromedp.Text(chromedp.CSS(".target"))); target != want {
		t.Errorf("the preview shows the URL %q", target)
	}
}

// The page shows an error beside its field, focuses the field, describes the error to screen readers,
// and keeps the input.
func TestPageShowsErrorBesideField(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	s.shorten(t, `{"url":"https://go.dev","alias":"mine"}`)
	for _, tt := range []struct{ name, url, alias, field, says string }{
		{"bad-url", "ftp://example.com/", "", "url", "The link must"},
		{"empty-url", "", "", "url", "The link must"},
		{"bad-alias", "https://example.com/", "a/b", "alias", "The alias must"},
		{"taken-alias", "https://example.com/<b>&\"", "mine", "alias", "The alias belongs"},
	} {
		b.Do(
			chromedp.Navigate(s.url),
			chromedp.SendKeys(chromedp.CSS("#url"), tt.url),
			browser.Evaluate(`document.querySelector("details").open = true`),
			chromedp.SendKeys(chromedp.CSS("#alias"), tt.alias),
			chromedp.Click(chromedp.CSS("form button")),
			browser.Becomes(`document.activeElement.id === "`+tt.field+`" && document.activeElement.ariaInvalid === "true"`),
		)
		described := browser.Of(b, chromedp.Evaluate[string](`document.activeElement.getAttribute("aria-describedby")
			.split(" ").map((id) => document.getElementById(id).textContent).join(" ")`))
		if !strings.Contains(described, tt.says) {
			t.Errorf("%s: the field is described by %q", tt.name, described)
		}
		if url, alias := browser.Of(b, chromedp.Value(chromedp.CSS("#url"))), browser.Of(b, chromedp.Value(chromedp.CSS("#alias"))); url != tt.url || alias != tt.alias {
			t.Errorf("%s: the fields contain %q and %q", tt.name, url, alias)
		}
		b.Screenshot(tt.name)
	}
}

// If an error belongs to no field, the page focuses the error. The page keeps input that was too
// long for the server.
func TestPageShowsErrorThatBelongsToNoField(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url),
		browser.Becomes(`document.activeElement.id === "url"`),
		browser.Evaluate(`document.querySelector("#url").value = "https://go.dev/" + "\u00e9".repeat(4000)`),
		chromedp.Click(chromedp.CSS("form button")),
		browser.Becomes(`document.activeElement.id === "form-error" && document.activeElement.textContent !== ""`),
		browser.Becomes(`document.querySelector("#url").value.length === 4015`),
	)
	b.Screenshot("too-large")
}

// The page keeps the input when the server does not answer.
func TestPageKeepsInputIfServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url),
		browser.Becomes(`document.activeElement.id === "url"`),
	)
	s.server.Close()
	b.Do(
		chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev"+kb.Enter),
		browser.Becomes(`document.querySelector("#form-error").textContent !== ""`),
		browser.Becomes(`document.querySelector("#url").value === "https://go.dev"`),
	)
}

// The bookmarklet may send an address that is too long for a link. The page must not show an empty form without a reason.
func TestPageReportsAddressFromBookmarkletThatIsTooLong(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := s.do(t, http.MethodGet, "/?url=https://go.dev/"+strings.Repeat("a", 2048), "", "Accept", "text/html")
	if want := "must be at most 2048 bytes long"; r.status != http.StatusOK || !strings.Contains(r.body, want) {
		t.Errorf("the page has status %d and does not contain %q", r.status, want)
	}
}

// The keyboard reaches every control in reading order.
func TestPageIsUsableByKeyboard(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url),
		browser.Becomes(`document.activeElement.id === "url"`),
		browser.Press("https://go.dev/"),
		browser.Press(kb.Tab), browser.Becomes(`document.activeElement.matches("form button")`),
		browser.Press(kb.Tab), browser.Becomes(`document.activeElement.matches("summary")`),
		browser.Press(" "), browser.Becomes(`document.querySelector("details").open`),
		browser.Press(kb.Tab), browser.Becomes(`document.activeElement.id === "alias"`),
		browser.Press("keys"),
		browser.Press(kb.Tab), browser.Becomes(`document.activeElement.id === "expires_in"`),
		browser.Press(kb.ArrowDown), browser.Becomes(`document.querySelector("#expires_in").value === "1h"`),
		chromedp.Focus(chromedp.CSS("#alias")), browser.Press(kb.Enter),
		browser.Becomes(`document.activeElement.id === "result-title"`),
		browser.Press(kb.Tab), browser.Becomes(`document.activeElement.id === "short"`),
		browser.Press(kb.Tab), browser.Becomes(`document.activeElement.matches("[data-copy]")`),
	)
	if short := browser.Of(b, chromedp.Text(chromedp.CSS("#short"))); short != s.url+"/keys" {
		t.Errorf("the short URL is %q", short)
	}
	redirects(t, s, s.url+"/keys", "https://go.dev/")
}

// On every screen and in both colour schemes, the page does not scroll sideways and its
// texts have enough contrast.
func TestPageFitsEveryScreen(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	long := "https://example.com/" + strings.Repeat("a", 200)
	s.shorten(t, `{"url":"`+long+`","alias":"a-long-alias-000","expires_in":"24h"}`)
	pages := map[string]string{"form": s.url, "preview": s.url + "/a-long-alias-000+", "missing": s.url + "/nothing-here"}
	for _, scheme := range []string{"light", "dark"} {
		b.Do(browser.Scheme(scheme))
		for device, width := range map[string]int64{"phone": 320, "desktop": 1280} {
			b.Do(chromedp.EmulateViewport(width, 800))
			for page, url := range pages {
				name := page + "-" + device + "-" + scheme
				b.Do(chromedp.Navigate(url), browser.Evaluate(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
				b.CheckLooks(name)
			}
		}
	}
}

// Without scripts, the field with the error has the focus.
func TestFieldWithErrorHasFocusWithoutScripts(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	// A page of a headless browser does not have the keyboard focus, which :focus requires.
	b.Do(withoutScripts(), browser.Emulate(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	focused := func(selector string) {
		t.Helper()
		b.Do(chromedp.WaitVisible(chromedp.CSS(selector + ":focus")))
	}
	b.Do(chromedp.Navigate(s.url))
	focused("#url")
	b.Do(chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev/"), chromedp.Click(chromedp.CSS("summary")), chromedp.SendKeys(chromedp.CSS("#alias"), "a/b"+kb.Enter))
	focused("#alias[aria-invalid]")
	b.Do(chromedp.Clear(chromedp.CSS("#url")), chromedp.SendKeys(chromedp.CSS("#url"), "ftp://go.dev/"+kb.Enter))
	focused("#url[aria-invalid]")
	b.Do(chromedp.Navigate(s.url + "/?url=https://go.dev/&expires_in=soon"))
	focused("#expires_in[aria-invalid]")
}
