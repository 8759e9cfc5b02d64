package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"keypool/internal/testenv/browser"
)

// The button Copy works with and without the clipboard API. A message beside the button says whether the
// link was copied.
func TestPageCopiesShortLink(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ browser, says string }{
		"clipboard API": {`navigator.clipboard.writeText = async (text) => { window.copied = text; }`, "Copied."},
		"no clipboard API": {
			`delete Navigator.prototype.clipboard; document.addEventListener("copy", () => { window.copied = String(getSelection()); })`, "Copied.",
		},
		"clipboard API that refuses": {
			`navigator.clipboard.writeText = async () => { throw new DOMException("", "NotAllowedError"); };
			document.addEventListener("copy", () => { window.copied = String(getSelection()); })`, "Copied.",
		},
		"no way to copy": {
			`delete Navigator.prototype.clipboard; document.execCommand = () => { window.copied = String(getSelection()); return false; }`,
			"The browser refused to copy. The short link is selected: copy it yourself.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := newSite(t, nil), browser.New(t)
			b.Do(
				chromedp.Navigate(s.url),
				browser.Evaluate(tt.browser),
				chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev/"+kb.Enter),
				chromedp.WaitVisible(chromedp.CSS("[data-copy]")),
				chromedp.Click(chromedp.CSS("[data-copy]")),
				browser.Becomes(`document.querySelector("#said").textContent === "`+tt.says+`"`),
				browser.Becomes(`window.copied === document.querySelector("#short").textContent`),
			)
			beside := `(() => {
				const button = document.querySelector("[data-copy]").getBoundingClientRect(), said = document.querySelector("#said").getBoundingClientRect();
				return said.top < button.bottom + 24 && said.bottom > button.top - 24;
			})()`
			if !browser.Of(b, chromedp.Evaluate[bool](beside)) {
				t.Error("the message is not beside the button")
			}
			b.Screenshot("copied")
		})
	}
}

func TestPageSharesShortLink(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url),
		browser.Evaluate(`navigator.share = async (data) => {
			window.shared = data.url;
			if (window.refusal) throw new DOMException("", window.refusal);
		}`),
		chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev/"+kb.Enter),
		chromedp.Click(chromedp.CSS("[data-share]")),
		browser.Becomes(`window.shared === document.querySelector("#short").textContent`),
		browser.Evaluate(`window.refusal = "AbortError"; window.shared = ""`), // the person closed the dialogue
		chromedp.Click(chromedp.CSS("[data-share]")),
		browser.Becomes(`window.shared !== ""`),
		browser.Becomes(`document.querySelector("#said").textContent === ""`),
		browser.Evaluate(`window.refusal = "NotAllowedError"`),
		chromedp.Click(chromedp.CSS("[data-share]")),
		browser.Becomes(`document.querySelector("#said").textContent.includes("refused to share")`),
	)
}

// Without navigator.share, the page has no button to share.
func TestPageHidesShareButtonIfBrowserCannotShare(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url),
		browser.Evaluate(`delete Navigator.prototype.share`),
		chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev/"+kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("[data-copy]")),
		chromedp.WaitNotVisible(chromedp.CSS("[data-share]")),
	)
}

// recentCodes is a JavaScript expression. Its value is the codes of the recent links that the page shows, or "hidden" if the
// page hides the list.
const recentCodes = `document.querySelector("#recent").hidden ? "hidden" : [...document.querySelectorAll("#recent li a")].map((a) => a.textContent.split("/").pop()).join(" ")`

func TestPageListsRecentLinks(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	shows := func(want string) chromedp.Action[chromedp.Void] {
		return browser.Becomes(`(` + recentCodes + `) === "` + want + `"`)
	}
	b.Do(chromedp.Navigate(s.url), shows("hidden"))
	for i := range 12 {
		b.Do(
			chromedp.Navigate(fmt.Sprintf("%s/?url=https://go.dev/%d&alias=a%[2]d", s.url, i)),
			chromedp.Click(chromedp.CSS("form button")),
			browser.Becomes(`document.activeElement.id === "result-title"`),
		)
	}
	b.Do(chromedp.Navigate(s.url), shows("a11 a10 a9 a8 a7 a6 a5 a4 a3 a2"))
	b.Screenshot("recent")
	if said := browser.Of(b, chromedp.Text(chromedp.CSS("#recent"))); !strings.Contains(said, "Only this browser keeps this list.") {
		t.Errorf("the list does not say where it is kept: %s", said)
	}
	b.Do(
		// The list in localStorage contains entries that the page never writes, such as null. The page shows only the
		// entries that are valid links.
		browser.Evaluate(`localStorage.setItem("keypool.recent", JSON.stringify([
			null, 5, {}, { short: "javascript:alert(1)", url: "x" }, { short: "https://x/ok", url: "<b>" },
			{ short: "https://x/old", url: "x", expires: "2020-01-01T00:00:00Z" }]))`),
		chromedp.Navigate(s.url), shows("ok"),
		browser.Evaluate(`localStorage.setItem("keypool.recent", "{")`),
		chromedp.Navigate(s.url), shows("hidden"),
		browser.Evaluate(`localStorage.setItem("keypool.recent", '[{"short":"https://x/ok","url":"x"}]')`),
		chromedp.Navigate(s.url), shows("ok"),
		chromedp.Click(chromedp.CSS("[data-clear]")), shows("hidden"),
		chromedp.Navigate(s.url), shows("hidden"),
	)
}

// A browser that refuses storage creates links as usual, without a list.
func TestPageCreatesLinksWithoutLocalStorage(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		browser.BeforeScripts(`Object.defineProperty(window, "localStorage", { get() { throw new DOMException("", "SecurityError"); } })`),
		chromedp.Navigate(s.url),
		chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev/"+kb.Enter),
		browser.Becomes(`document.activeElement.id === "result-title"`),
		browser.Becomes(`document.querySelector("#recent").hidden`),
	)
}

// If a person enters a URL without a scheme, the page adds https:// and asks for one more click.
func TestPageAddsMissingSchemeAndAsksForConfirmation(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"scripts": true, "no scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := newSite(t, nil), browser.New(t)
			b.Do(
				browser.Emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts}),
				chromedp.Navigate(s.url),
				chromedp.SendKeys(chromedp.CSS("#url"), "go.dev/doc?a=1"),
				chromedp.Click(chromedp.CSS("form button")),
				chromedp.WaitVisible(chromedp.CSS("#url-offer")),
			)
			if offered := browser.Of(b, chromedp.Value(chromedp.CSS("#url"))); offered != "https://go.dev/doc?a=1" {
				t.Errorf("the page offers %q, want the URL with https://", offered)
			}
			b.Screenshot("scheme")
			b.Do(chromedp.Click(chromedp.CSS("form button")), chromedp.WaitVisible(chromedp.CSS("#short")))
			redirects(t, s, browser.Of(b, chromedp.Text(chromedp.CSS("#short"))), "https://go.dev/doc?a=1")
		})
	}
}

// untilSuggestions repeats the steps, which request a taken alias, until the page has suggestions. The service answers
// without suggestions if it does not find them in time.
func untilSuggestions(t *testing.T, b *browser.Tab, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for range 20 {
		start := time.Now()
		b.Do(steps...)
		b.Do(browser.Becomes(`document.readyState === "complete"`))
		if browser.Of(b, chromedp.Evaluate[bool](`document.querySelector("[data-fill]") !== null`)) {
			return
		}
		if time.Since(start) < slowAnswer {
			break
		}
	}
	t.Fatal("the page has no suggestions")
}

// The page offers free aliases. Without scripts, a suggestion is a link to the form with all fields filled.
func TestPageSuggestsFreeAliases(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"scripts": true, "no scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := newSite(t, nil), browser.New(t)
			s.shorten(t, `{"url":"https://go.dev","alias":"mine"}`)
			const long = "https://example.com/?a=1&b=%26"
			b.Do(browser.Emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts}))
			untilSuggestions(t, b,
				chromedp.Navigate(s.url+"/?"+url.Values{"url": {long}, "alias": {"mine"}, "expires_in": {"24h"}}.Encode()),
				chromedp.Click(chromedp.CSS("form button")),
				chromedp.WaitVisible(chromedp.CSS("#alias-error")),
			)
			b.Screenshot("suggestions")
			b.Do(
				chromedp.Click(chromedp.CSS(`[data-value="mine-3"]`)),
				chromedp.WaitNotPresent(chromedp.CSS("#alias-error")),
			)
			if alias := browser.Of(b, chromedp.Value(chromedp.CSS("#alias"))); alias != "mine-3" {
				t.Errorf("the alias is %q, want mine-3", alias)
			}
			b.Do(chromedp.Click(chromedp.CSS("form button")), chromedp.WaitVisible(chromedp.CSS("#short")))
			if r := s.do(t, http.MethodGet, "/mine-3+", ""); !strings.Contains(r.body, `"url":"`+long+`"`) || !strings.Contains(r.body, "expires_at") {
				t.Errorf("the link is %s, want the entered URL and an expiry", r.body)
			}
		})
	}
}

// The bookmarklet fills the form with the address of the page on which a person chooses it. On the page of Keypool
// itself, a click on the bookmarklet only shows a message, which asks the person to drag the link.
func TestBookmarkletFillsFormWithAddressOfPage(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url),
		chromedp.Click(chromedp.CSS("[data-bookmarklet]")),
		browser.Becomes(`document.querySelector("#bookmarklet-said").textContent.includes("Drag")`),
	)
	bookmarklet := browser.Of(b, chromedp.AttributeValue(chromedp.CSS("[data-bookmarklet]"), "href")).Value
	script, found := strings.CutPrefix(bookmarklet, "javascript:")
	script, err := url.PathUnescape(script) // as a browser does
	if !found || err != nil {
		t.Fatalf("the bookmarklet is %s: %v", bookmarklet, err)
	}
	from := s.url + "/healthz?a=1&b=%26%20#c"
	b.Do(
		chromedp.Navigate(from),
		browser.Evaluate(script),
		chromedp.WaitVisible(chromedp.CSS("#url")),
		browser.Becomes(`document.querySelector("#url").value === `+fmt.Sprintf("%q", from)),
	)
}

// With the keyboard alone, a person accepts a suggestion, copies the link, follows the recent links and clears them.
func TestPageActionsAreUsableByKeyboard(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	s.shorten(t, `{"url":"https://go.dev","alias":"mine"}`)
	tab := func(selector string) chromedp.Action[chromedp.Void] {
		return chromedp.Steps(browser.Press(kb.Tab), browser.Becomes(`document.activeElement.matches('`+selector+`')`))
	}
	untilSuggestions(t, b,
		chromedp.Navigate(s.url+"/?url=https://example.com/&alias=mine"),
		browser.Evaluate(`navigator.share = async () => { window.shared = true; }`),
		browser.Becomes(`document.activeElement.id === "url"`),
		browser.Press(kb.Enter),
		browser.Becomes(`document.activeElement.id === "alias" && document.activeElement.ariaInvalid === "true"`),
	)
	b.Do(
		tab(`[data-value="mine-2"]`), browser.Press(kb.Enter),
		browser.Becomes(`document.activeElement.id === "alias" && document.activeElement.value === "mine-2"`),
		browser.Press(kb.Enter),
		browser.Becomes(`document.activeElement.id === "result-title"`),
		tab("#short"), tab("[data-copy]"), browser.Press(kb.Enter),
		browser.Becomes(`document.querySelector("#said").textContent !== ""`),
		tab("[data-share]"), browser.Press(" "), browser.Becomes(`window.shared`),
		tab(`a[href$="+"]`), tab(`a[download]`), tab("#url"), tab("form button"), tab("summary"), tab("#recent-list a"), tab("[data-clear]"),
		browser.Press(kb.Enter), browser.Becomes(`document.querySelector("#recent").hidden`),
	)
}

// A phone shows the whole short link, even if the host is long.
func TestPageShowsWholeShortLink(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, func(c *PublicConfig) { c.BaseURL = "https://links.a-department.a-long-company-name.example" }), browser.New(t)
	b.Do(
		chromedp.EmulateViewport(390, 844),
		chromedp.Navigate(s.url+"/?url=https://go.dev/&alias=sixteen-letters_"),
		chromedp.Click(chromedp.CSS("form button")),
		browser.Becomes(`document.activeElement.id === "result-title"`),
	)
	whole := `(() => {
		const link = document.querySelector("#short");
		const code = document.createRange();
		code.selectNodeContents(link.querySelector(".whole"));
		return link.textContent === link.href && code.getClientRects().length === 1 &&
			[...link.getClientRects()].every((r) => r.left >= 0 && r.right <= innerWidth) && getComputedStyle(link).overflow === "visible";
	})()`
	if !browser.Of(b, chromedp.Evaluate[bool](whole)) {
		t.Error("a part of the short link is outside of the page, or its code has a line break")
	}
	b.CheckLooks("short-link")
}

// The QR code is visible after a creation and in the preview.
func TestPageShowsQRCode(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url+"/?url=https://go.dev/&alias=mine"),
		chromedp.Click(chromedp.CSS("form button")),
		browser.Becomes(`document.activeElement.id === "result-title"`),
	)
	for range 2 {
		b.Do(browser.Becomes(`document.querySelector(".qr img").complete && document.querySelector(".qr img").naturalWidth > 0`))
		download := browser.Of(b, chromedp.AttributeValue(chromedp.CSS("a[download]"), "href")).Value
		if got := scanPNG(t, s.do(t, http.MethodGet, download, "").body); got != s.url+"/mine" {
			t.Errorf("the PNG to download contains %q", got)
		}
		b.Do(browser.Evaluate(`document.getAnimations().forEach((a) => a.finish())`))
		if got := scanPNG(t, string(browser.Of(b, chromedp.FullScreenshot(100)))); got != s.url+"/mine" {
			t.Errorf("a camera reads %q from the page", got)
		}
		b.Do(chromedp.Navigate(s.url + "/mine+"))
	}
}

// Each view fits a phone and a desktop, and its texts have enough contrast in both colour schemes.
func TestEachViewOfPageFitsEveryScreen(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	s.shorten(t, `{"url":"https://a-rather-long-host-name.of-some-company.example/a/path?with=a&query=string","alias":"mine","expires_in":"24h"}`)
	long := url.QueryEscape("https://example.com/" + strings.Repeat("a", 200))
	submit := browser.Evaluate(`document.querySelector("form button").click()`)
	views := map[string][]chromedp.Action[chromedp.Void]{
		"home":        {chromedp.Navigate(s.url), browser.Becomes(`!document.querySelector("#recent").hidden`)},
		"created":     {chromedp.Navigate(s.url + "/?url=" + long), submit, browser.Becomes(`document.querySelector(".qr img")?.complete`)},
		"preview":     {chromedp.Navigate(s.url + "/mine+"), browser.Becomes(`document.querySelector(".qr img").complete`)},
		"suggestions": {chromedp.Navigate(s.url + "/?alias=mine&url=" + long), submit, chromedp.WaitVisible(chromedp.CSS("[data-fill]"))},
		"scheme":      {chromedp.Navigate(s.url + "/?url=go.dev"), submit, chromedp.WaitVisible(chromedp.CSS("#url-offer"))},
		"docs":        {chromedp.Navigate(s.url + "/docs"), browser.Evaluate(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)},
	}
	// The view "created" is first, because it creates the link that the view "home" lists as recent.
	order := []string{"created", "home", "preview", "suggestions", "scheme", "docs"}
	for _, scheme := range []string{"light", "dark"} {
		b.Do(browser.Scheme(scheme))
		for device, width := range map[string]int64{"phone": 390, "desktop": 1280} {
			b.Do(chromedp.EmulateViewport(width, 800))
			for _, name := range order {
				b.Do(views[name]...)
				b.Do(browser.Evaluate(`document.getAnimations().forEach((a) => a.finish())`))
				b.CheckLooks(name + "-" + device + "-" + scheme)
			}
		}
	}
}
