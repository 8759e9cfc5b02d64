// Package browser starts a headless Chromium for a test.
//
// The test fails if a page throws an exception, writes to the console or violates its
// Content-Security-Policy.
package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is the time limit for one call of [Tab.Do] or [Of].
const patience = 2 * time.Minute

// Tab is a browser with one page. It closes at the end of its test.
type Tab struct {
	t   *testing.T
	ctx context.Context
}

// New starts a browser. It fails the test if no Chromium is installed.
func New(t *testing.T) *Tab {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("this test needs a browser: install chromium (apt-get install chromium)")
	}
	// The options do not set UserDataDir, so chromedp makes a directory. Before chromedp removes this directory, it
	// kills the processes that still use the directory.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b := &Tab{t, ctx}
	b.Listen(func(event any) { complain(t, event) })
	return b
}

// Listen calls f for each event of the page, in another goroutine.
func (b *Tab) Listen(f func(event any)) {
	b.t.Helper()
	if err := chromedp.Listen(b.ctx, f); err != nil {
		b.t.Fatal(err)
	}
}

// complain fails the test if the event is an exception, console output or a violation of a policy.
func complain(t *testing.T, event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		t.Errorf("the page threw an exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		t.Errorf("the page writes to the console (%s): %+v", e.Type, e.Args)
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceJavascript {
			t.Errorf("the browser reports: %s", e.Entry.Text)
		}
	}
}

// Do runs steps in order. It fails the test when a step fails, or when all steps together take longer
// than patience.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	Of(b, chromedp.Steps(steps...))
}

// Of runs an action and returns its result. It fails the test when the action fails or takes longer
// than patience.
func Of[T any](b *Tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.state())
	}
	return v
}

// state describes the page: its URL, the element that has the focus, and the text.
func (b *Tab) state() string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	state, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`[location.href, document.activeElement?.outerHTML, document.body?.innerText].join("\n")`))
	if err != nil {
		return "the state of the page is unknown: " + err.Error()
	}
	return state
}

// Screenshot saves a PNG image with the artifacts of the test (go test -artifacts).
func (b *Tab) Screenshot(name string) {
	b.t.Helper()
	png := Of(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// Becomes waits until a JavaScript expression is true. It continues to wait if the browser opens
// another page.
func Becomes(expression string) chromedp.Action[chromedp.Void] {
	const interval = 20 * time.Millisecond
	poll := chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(interval), chromedp.WithPollingTimeout(0))
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			_, err := poll(ctx, t)
			if !pageGone(err) {
				return err
			}
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// pageGone reports whether an action failed because the browser left the page that the action ran in.
// Other errors have the same code, so pageGone compares the text.
func pageGone(err error) bool {
	var e *cdproto.Error
	return errors.As(err, &e) && slices.Contains([]string{
		"Cannot find context with specified id", "Execution context was destroyed.", "Inspected target navigated or closed",
	}, e.Message)
}

// Press sends keys to the element that has the focus, with the events of a keyboard. The event of a key that goes down
// has the type kb.KeyRawDown. [chromedp.KeyEvent] alone would send kb.KeyDown instead. Some keys, such as Enter on a
// link, can move the focus when they go down. After kb.KeyDown, the element with the new focus would receive the key
// again.
func Press(keys string) chromedp.Action[chromedp.Void] {
	return chromedp.KeyEvent(keys, func(p *input.DispatchKeyEventParams) {
		if p.Type == kb.KeyDown {
			p.Type = kb.KeyRawDown
		}
	})
}

// Evaluate runs a JavaScript expression for its effect.
func Evaluate(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](expression)
}

// BeforeScripts makes the browser run a script in each page that it opens from then on, before the
// scripts of the page.
func BeforeScripts(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

// Emulate runs a command of the Chrome DevTools Protocol that changes a setting of the browser.
func Emulate[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// Scheme sets the preferred colour scheme, "light" or "dark".
func Scheme(scheme string) chromedp.Action[chromedp.Void] {
	return Emulate(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// CheckLooks fails the test when the page scrolls horizontally, or when the contrast of a text
// is below 4.5 (WCAG 2.2, 1.4.3). It saves a screenshot.
func (b *Tab) CheckLooks(name string) {
	b.t.Helper()
	if over := Of(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); over > 0 {
		b.t.Errorf("%s: the page is %d px too wide", name, over)
	}
	if least := Of(b, chromedp.Evaluate[float64](leastContrast)); least < 4.5 {
		b.t.Errorf("%s: a text has a contrast of %.2f, want at least 4.5", name, least)
	}
	b.Screenshot(name)
}

// leastContrast computes the lowest contrast ratio of the texts on the page.
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
