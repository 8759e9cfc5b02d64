package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience bounds each condition that a test waits for.
const patience = 30 * time.Second

// tab is a browser that is one test's own.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func newTab(t *testing.T) *tab {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("the page is tested in a browser: install chromium (apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(t.TempDir()))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	if err := chromedp.Listen(ctx, func(event any) { complain(t, event) }); err != nil {
		t.Fatal(err)
	}
	return &tab{t, ctx}
}

// complain fails the test when a page threw, or broke the policy that it came with.
func complain(t *testing.T, event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		t.Errorf("the page threw: %+v", e.ExceptionDetails)
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceJavascript {
			t.Errorf("the browser complains: %s", e.Entry.Text)
		}
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	of(b, chromedp.Steps(steps...))
}

// of gives the result of an action.
func of[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// screenshot keeps a picture beside the other output of the test (go test -artifacts).
func (b *tab) screenshot(name string) {
	b.t.Helper()
	png := of(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// becomes waits until a JavaScript expression is true.
func becomes(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(20*time.Millisecond))
}

func evaluate(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](expression)
}

func emulate[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// redirects checks that a short URL leads where it should.
func redirects(t *testing.T, s *site, short, want string) {
	t.Helper()
	r := s.do(t, http.MethodGet, strings.TrimPrefix(short, s.url), "")
	if r.status != http.StatusFound || r.header.Get("Location") != want {
		t.Errorf("%s: %d to %q", short, r.status, r.header.Get("Location"))
	}
}

func TestPageCreates(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), newTab(t)
	const want = "https://go.dev/doc/effective_go"
	b.do(
		chromedp.Navigate(s.url),
		becomes(`document.activeElement.id === "url"`),
		chromedp.SendKeys(chromedp.CSS("#url"), want+kb.Enter),
		becomes(`document.activeElement.id === "result-title"`),
	)
	redirects(t, s, of(b, chromedp.Value(chromedp.CSS("#short"))), want)
	b.screenshot("created")
	b.do(
		// A headless browser has no clipboard to ask for; the old way it has.
		evaluate(`delete Navigator.prototype.clipboard`),
		chromedp.Click(chromedp.CSS("[data-copy]")),
		becomes(`document.querySelector("#said").textContent.includes("on the clipboard")`),
	)
}

// Without scripts it is a form and an answer.
func TestPageWithoutScripts(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), newTab(t)
	const want = "https://go.dev/"
	b.do(
		emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(s.url),
		chromedp.SendKeys(chromedp.CSS("#url"), want),
		chromedp.Click(chromedp.CSS("summary")),
		chromedp.SendKeys(chromedp.CSS("#alias"), "no-script"),
		chromedp.Click(chromedp.CSS("form button")),
		chromedp.WaitVisible(chromedp.CSS("#short")),
		chromedp.WaitNotVisible(chromedp.CSS("[data-copy]")),
	)
	if short := of(b, chromedp.Value(chromedp.CSS("#short"))); short != s.url+"/no-script" {
		t.Errorf("short URL %q", short)
	}
	redirects(t, s, s.url+"/no-script", want)
	b.do(chromedp.Click(chromedp.CSS(`a[href$="+"]`)), chromedp.WaitVisible(chromedp.CSS(".target")))
	if target := of(b, chromedp.Text(chromedp.CSS(".target"))); target != want {
		t.Errorf("the preview leads to %q", target)
	}
}

// What was wrong is shown and announced at its field, and nothing entered is lost.
func TestPageShowsErrorAtField(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), newTab(t)
	s.shorten(t, `{"url":"https://go.dev","alias":"mine"}`)
	for _, tt := range []struct{ name, url, alias, field, says string }{
		{"bad-url", "example", "", "url", "The link must"},
		{"empty-url", "", "", "url", "The link must"},
		{"bad-alias", "https://example.com/", "a/b", "alias", "The alias must"},
		{"taken-alias", "https://example.com/<b>&\"", "mine", "alias", "The alias belongs"},
	} {
		b.do(
			chromedp.Navigate(s.url),
			chromedp.SendKeys(chromedp.CSS("#url"), tt.url),
			evaluate(`document.querySelector("details").open = true`),
			chromedp.SendKeys(chromedp.CSS("#alias"), tt.alias),
			chromedp.Click(chromedp.CSS("form button")),
			becomes(`document.activeElement.id === "`+tt.field+`" && document.activeElement.ariaInvalid === "true"`),
		)
		described := of(b, chromedp.Evaluate[string](`document.activeElement.getAttribute("aria-describedby")
			.split(" ").map((id) => document.getElementById(id).textContent).join(" ")`))
		if !strings.Contains(described, tt.says) {
			t.Errorf("%s: described by %q", tt.name, described)
		}
		if url, alias := of(b, chromedp.Value(chromedp.CSS("#url"))), of(b, chromedp.Value(chromedp.CSS("#alias"))); url != tt.url || alias != tt.alias {
			t.Errorf("%s: now %q and %q", tt.name, url, alias)
		}
		b.screenshot(tt.name)
	}
}

// A server that is away loses nothing of what was entered.
func TestPageServerAway(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), newTab(t)
	b.do(
		chromedp.Navigate(s.url),
		becomes(`document.activeElement.id === "url"`),
	)
	s.server.Close()
	b.do(
		chromedp.SendKeys(chromedp.CSS("#url"), "https://go.dev"+kb.Enter),
		becomes(`document.querySelector("#form-error").textContent !== ""`),
		becomes(`document.querySelector("#url").value === "https://go.dev"`),
	)
}

// Everything can be reached and done with the keyboard, in the order of reading.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), newTab(t)
	b.do(
		chromedp.Navigate(s.url),
		becomes(`document.activeElement.id === "url"`),
		chromedp.KeyEvent("https://go.dev/"),
		chromedp.KeyEvent(kb.Tab), becomes(`document.activeElement.matches("form button")`),
		chromedp.KeyEvent(kb.Tab), becomes(`document.activeElement.matches("summary")`),
		chromedp.KeyEvent(" "), becomes(`document.querySelector("details").open`),
		chromedp.KeyEvent(kb.Tab), becomes(`document.activeElement.id === "alias"`),
		chromedp.KeyEvent("keys"),
		chromedp.KeyEvent(kb.Tab), becomes(`document.activeElement.id === "expires_in"`),
		chromedp.KeyEvent(kb.ArrowDown), becomes(`document.querySelector("#expires_in").value === "1h"`),
		chromedp.Focus(chromedp.CSS("#alias")), chromedp.KeyEvent(kb.Enter),
		becomes(`document.activeElement.id === "result-title"`),
		chromedp.KeyEvent(kb.Tab), becomes(`document.activeElement.id === "short"`),
		chromedp.KeyEvent(kb.Tab), becomes(`document.activeElement.matches("[data-copy]")`),
	)
	if short := of(b, chromedp.Value(chromedp.CSS("#short"))); short != s.url+"/keys" {
		t.Errorf("short URL %q", short)
	}
	redirects(t, s, s.url+"/keys", "https://go.dev/")
}

// On every width and in both colour schemes: no scrolling sideways, and text that
// stands out from its ground (WCAG 2.2, 1.4.3: a ratio of 4.5).
func TestPageLooks(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), newTab(t)
	long := "https://example.com/" + strings.Repeat("a", 200)
	s.shorten(t, `{"url":"`+long+`","alias":"a-long-alias-000","expires_in":"24h"}`)
	pages := map[string]string{"form": s.url, "preview": s.url + "/a-long-alias-000+", "missing": s.url + "/nothing-here"}
	for name, status := range map[string]Status{"status": full(), "status-paged": paged(), "status-fallen-back": fallenBack()} {
		admin := httptest.NewServer(newTestAdmin(nil, status))
		t.Cleanup(admin.Close)
		pages[name] = admin.URL
	}
	for _, scheme := range []string{"light", "dark"} {
		b.do(emulate(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}))
		for device, width := range map[string]int64{"phone": 320, "desktop": 1280} {
			b.do(chromedp.EmulateViewport(width, 800))
			for page, url := range pages {
				name := page + "-" + device + "-" + scheme
				b.do(chromedp.Navigate(url), evaluate(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
				if over := of(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); over > 0 {
					t.Errorf("%s: %d px too wide", name, over)
				}
				if least := of(b, chromedp.Evaluate[float64](leastContrast)); least < 4.5 {
					t.Errorf("%s: a contrast of %.2f", name, least)
				}
				b.screenshot(name)
			}
		}
	}
}

// leastContrast gives the lowest contrast ratio of any text on the page.
const leastContrast = `(() => {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  let least = 21;
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest("script")) continue;
    const [a, b] = [channels(getComputedStyle(e).color), ground(e)].map(luminance).sort((x, y) => y - x);
    least = Math.min(least, (a + 0.05) / (b + 0.05));
  }
  return least;
})()`
