package report

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

func rendered(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageShowsEveryPartOfReport(t *testing.T) {
	t.Parallel()
	html := strings.ReplaceAll(rendered(t, sample()), "&#43;", "+")
	for _, want := range []string{
		"<h1>FAIL</h1>", "5 of 9 claims hold, 1 failed, 1 inconclusive, 2 not judged", "The run was interrupted", "3 min 12 s", "24 November 2026, 14:03 UTC",
		"fd22103", "AMD EPYC 7763 64-Core Processor", "PostgreSQL 15.14, Redis 7.0.15", "--rate 1000 --duration 30s", "KGS_PAGE_BELOW",
		"1,503,205 keys/s", "18.52 attempts", "did not run to its end", "address already in use", "beyond the limit", "(predicted)",
		"Keypool load test ·", "A control is caught if all claims that it names fail.", "<dt>Runway</dt>", "<b>2</b> restart signal", "NOT CAUGHT", "MISSES", "HOLDS",
		`href="#findings">See 6 findings.`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	// The most important parts come first.
	at := -1
	for _, part := range []string{"<h1>", `class="pictures"`, `id="findings"`, `id="claims"`, `id="run"`} {
		next := strings.Index(html, part)
		if next < at {
			t.Errorf("the part %s of the page comes too early", part)
		}
		at = next
	}
}

func TestPageOfPassingRunShowsNoFindings(t *testing.T) {
	t.Parallel()
	good := sample()
	good.Experiments, good.Interrupted, good.Full = good.Experiments[3:4], false, true
	html := rendered(t, good)
	for _, unwanted := range []string{`badge fail"`, "interrupted", `id="findings"`} {
		if strings.Contains(html, unwanted) {
			t.Errorf("the page contains %q, but all claims hold", unwanted)
		}
	}
	for _, want := range []string{`class="verdict pass"`, ", with --full"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPageOfEmptyRunShowsError(t *testing.T) {
	t.Parallel()
	html := rendered(t, &Report{})
	for _, want := range []string{`class="verdict error"`, "0 claims were judged"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
}

func TestPageEscapesEveryText(t *testing.T) {
	t.Parallel()
	const hostile = `</style></svg><script>alert(1)</script><img src=http://example.com/x onerror=alert(2)>"'` + "`&"
	var document any
	if err := json.Unmarshal(encoded(t, sample()), &document); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(replaced(document, hostile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	html := rendered(t, r)
	for _, markup := range []string{"<script", "<img", "</style></svg>"} {
		if strings.Contains(html, markup) {
			t.Errorf("the page contains the markup %s from a text of the report", markup)
		}
	}
	if got := strings.Count(html, "</style>"); got != 1 {
		t.Errorf("the page has %d style sheets, want 1", got)
	}
	if !strings.Contains(html, "&lt;script&gt;alert(1)") {
		t.Error("the page does not contain the escaped text")
	}
}

// replaced returns v with text in place of every string that is not a time, a kind or an outcome.
func replaced(v any, text string) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = replaced(v[name], text)
		}
		if s, ok := v["settings"].(map[string]any); ok {
			s[text] = text
		}
	case []any:
		for i := range v {
			v[i] = replaced(v[i], text)
		}
	case string:
		if slices.Contains([]string{"correctness", "speed", "bar", "held", "failed", "inconclusive", "not judged"}, v) {
			return v
		}
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			return text
		}
	}
	return v
}

// patience bounds each step in the browser.
const patience = 2 * time.Minute

// browse opens a page in a browser and returns a function that runs steps in the page. The test
// fails if the browser logs a message or requests a URL other than the page.
func browse(t *testing.T, url string) func(...chromedp.Action[chromedp.Void]) {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("the page is tested in a browser: %v (apt-get install chromium)", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	err = chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if e.Request.URL != url && !strings.HasPrefix(e.Request.URL, "data:") {
				t.Errorf("the page requests %s", e.Request.URL)
			}
		case *log.EventEntryAdded:
			t.Errorf("the browser logs: %s", e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		ctx, cancel := context.WithTimeout(tab, patience)
		defer cancel()
		if _, err := chromedp.Run(ctx, chromedp.Steps(steps...)); err != nil {
			t.Fatal(err)
		}
	}
	do(chromedp.Navigate(url))
	return do
}

// looks contains what the JavaScript in look measures on the page. The test runs it at each width
// and in both colour schemes.
type looks struct {
	Over  int      // pixels by which the page is too wide
	Small float64  // the smallest text in a chart, in pixels
	Out   []string // texts that are partly outside their chart
	Shown int      // number of visible charts
	Least float64  // the lowest contrast of a text with its background; WCAG 2.2, 1.4.3 requires 4.5
	Text  string   // the text with that contrast
}

func TestPageFitsEveryWidthAndColourScheme(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(path, []byte(rendered(t, sample())), 0o600); err != nil {
		t.Fatal(err)
	}
	do := browse(t, "file://"+path)
	for _, scheme := range []string{"light", "dark"} {
		for device, width := range map[string]int64{"phone": 390, "tablet": 800, "desk": 1280, "wall": 1920} {
			var l looks
			var folded, png []byte
			do(
				emulate(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
				}),
				chromedp.EmulateViewport(width, 1000),
				into(&l, chromedp.Evaluate[looks](`for (const d of document.querySelectorAll("details")) d.open = false; ({})`)),
				into(&folded, chromedp.FullScreenshot(100)),
				into(&l, chromedp.Evaluate[looks](look)),
				into(&png, chromedp.FullScreenshot(100)),
			)
			name := device + "-" + scheme
			for suffix, png := range map[string][]byte{".png": folded, "-unfolded.png": png} {
				if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+suffix), png, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if l.Over > 0 || len(l.Out) > 0 || l.Small < 9.5 || l.Shown != 4 || l.Least < 4.5 {
				t.Errorf("%s: %+v", name, l)
			}
		}
	}
}

func emulate[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// into stores the result of an action.
func into[T any](v *T, a chromedp.Action[T]) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) (err error) {
		*v, err = chromedp.Run(ctx, a)
		return err
	})
}

const look = `(() => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  const charts = [...document.querySelectorAll("figure svg")].filter((c) => c.checkVisibility());
  const letters = charts.flatMap((c) => [...c.querySelectorAll("text")].map((text) => ({ c, text })));
  const size = ({ c, text }) => parseFloat(getComputedStyle(text).fontSize) * c.clientWidth / c.viewBox.baseVal.width;
  const leaves = ({ c, text }) => {
    const [a, b] = [c, text].map((e) => e.getBoundingClientRect());
    return b.left < a.left - 1 || b.right > a.right + 1 || b.top < a.top - 1 || b.bottom > a.bottom + 1;
  };
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
  let Least = 21, Text = "";
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const [a, b] = [channels(e.closest("svg") ? style.fill : style.color), ground(e)].map(luminance).sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < Least) [Least, Text] = [contrast, e.textContent];
  }
  return {
    Over: document.documentElement.scrollWidth - innerWidth, Small: Math.min(...letters.map(size)),
    Out: letters.filter(leaves).map(({ text }) => text.textContent), Shown: charts.length, Least, Text,
  };
})()`
