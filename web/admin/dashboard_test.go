package admin

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/human"
	"keypool/internal/testenv/browser"
	"keypool/internal/testenv/machine"
)

// story returns the status of a server at one second of a test: the pool drains, then Redis
// fails, and then a worker fills a new epoch.
func story(second int) Status {
	s := full()
	switch {
	case second < 200:
		s.PoolKeys, s.RunwaySeconds = new(int64(1000000-4000*second)), new(float64(max(0, 190-second)))
	case second < 260:
		s = fallenBack()
	default:
		s.State, s.Epoch = "filling", new(int64(4))
		s.PoolKeys = new(int64(10000 * (second - 260)))
	}
	return s
}

// play takes the samples of the first seconds of the story.
func (b *board) play(seconds int) {
	b.t.Helper()
	b.at = time.Now().Add(-time.Duration(seconds) * sampleInterval)
	for second := range seconds {
		b.sampler.cfg.Status = func() Status { return story(second) }
		b.program.count(second)
		b.sample(1)
	}
}

// count adds the counts of one second of the story. Each second has 20 new links. The visits per
// second fall from 100 to 0 in the first 100 seconds.
func (c *counted) count(second int) {
	for i := range 20 {
		c.created++
		c.taken["pool"]++
		c.create.Observe(float64(1+i) / 1000)
	}
	for range max(0, 100-second) {
		c.redirects++
		c.redirect.Observe(30e-6)
	}
}

// requests records the URLs that a page requests.
type requests struct {
	mu   sync.Mutex
	urls []string
}

func (r *requests) record(event any) {
	if e, ok := event.(*network.EventRequestWillBeSent); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.urls = append(r.urls, e.Request.URL)
	}
}

// wantOnlyFrom checks that the page made requests, and that all requests went to one origin.
func (r *requests) wantOnlyFrom(t *testing.T, origin string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.urls) == 0 {
		t.Error("the page made no request")
	}
	for _, u := range r.urls {
		if !strings.HasPrefix(u, origin+"/") {
			t.Errorf("the page requests %s", u)
		}
	}
}

// On every screen and in both colour schemes, the page draws all its parts and does not scroll
// sideways. The texts of the page are readable, and the page loads nothing from another origin.
func TestDashboardFitsEveryScreen(t *testing.T) {
	t.Parallel()
	b, page := newBoard(t, 0), browser.New(t)
	b.play(330)
	var made requests
	page.Listen(made.record)
	for name, size := range map[string][2]int64{"phone": {390, 844}, "desktop": {1280, 800}, "wall": {3840, 2160}} {
		for _, scheme := range []string{"light", "dark"} {
			page.Do(browser.Scheme(scheme), chromedp.EmulateViewport(size[0], size[1]), chromedp.Navigate(b.url),
				browser.Becomes(`document.querySelectorAll(".chart path.line.first").length === 9`),
				browser.Becomes(`document.querySelectorAll("#facts dt").length === 17`))
			if n := browser.Of(page, chromedp.Evaluate[int](textsOutside)); n > 0 {
				t.Errorf("%s: %d texts are outside their panels", name, n)
			}
			page.CheckLooks("dashboard-" + name + "-" + scheme)
			if name == "phone" && !browser.Of(page, chromedp.Evaluate[bool](statesFirst)) {
				t.Error("on a phone the states and the changes are not above the charts")
			}
			if name == "wall" {
				page.Do(browser.Becomes(`document.documentElement.scrollHeight <= innerHeight`))
			}
		}
	}
	made.wantOnlyFrom(t, b.url)
}

// statesFirst reports whether the strips, which show the states over time, and the list of changes are
// above the charts.
const statesFirst = `(() => {
  const [strips, history, charts] = ["strips", "history", "charts"].map((id) => document.getElementById(id).getBoundingClientRect());
  return strips.bottom <= history.top && history.bottom <= charts.top;
})()`

// textsOutside counts the SVG texts that extend beyond their panels.
const textsOutside = `[...document.querySelectorAll("svg text")].filter((e) => {
  const [text, panel] = [e, e.closest(".panel")].map((e) => e.getBoundingClientRect());
  return text.left < panel.left || text.right > panel.right || text.top < panel.top || text.bottom > panel.bottom;
}).length`

// The page shows past events as shapes, as words and as text alternatives.
func TestDashboardShowsHistoryAsShapesAndText(t *testing.T) {
	t.Parallel()
	b, page := newBoard(t, 0), browser.New(t)
	b.play(300)
	// The clock of the page stands still, so that the last sample never becomes old. With an old sample, the page would
	// have another title and draw a span without data.
	page.Do(chromedp.EmulateViewport(1280, 800), browser.BeforeScripts(`const stopped = Date.now(); Date.now = () => stopped`), chromedp.Navigate(b.url),
		browser.Becomes(`document.title === "filling - Keypool" && document.querySelector("#chart-pool .now")?.textContent.includes("390,000")`))
	for what, expression := range map[string]string{
		"the pool":              `document.querySelector("#chart-pool .now").textContent.includes("390,000")`,
		"a gap in the curve":    `document.querySelector("#chart-pool path.line").getAttribute("d").split("M").length === 3`,
		"an unknown span":       `document.querySelectorAll("#chart-pool rect.unknown").length === 1`,
		"levels":                `[...document.querySelectorAll("#chart-pool text.level")].map((e) => e.textContent).join() === "restart below 20 %,page below 10 %"`,
		"times":                 `[...document.querySelectorAll("#chart-pool text")].some((e) => /^\d\d:\d\d(:\d\d)?$/.test(e.textContent))`,
		"runway below its axis": `[...document.querySelectorAll("#chart-runway text")].some((e) => e.textContent === "≤ 1 s")`,
		"a breaker that opened": `[...document.querySelectorAll("#strip-breaker text")].map((e) => e.textContent).join() === "closed,open,closed"`,
		"strip heights":         `new Set([...document.querySelectorAll("#strip-breaker rect")].map((e) => e.getAttribute("height"))).size === 2`,
		"breaker as text":       `document.querySelector("#strip-breaker svg").getAttribute("aria-label").includes("open from ")`,
		"an unknown epoch":      `document.querySelector("#strip-epoch rect.unknown") !== null`,
		"what changed":          `document.querySelector("#changes").textContent.includes("Serving from: fallback")`,
		"pool as text":          `document.querySelector("#chart-pool svg").getAttribute("aria-label").includes("unknown for 1 min")`,
		"rate of creations":     `document.querySelector("#chart-created .now").textContent === "20/s"`,
		"creation latency":      `/^(19|20|21) msp99p50 (9\.[5-9]|10|11) ms$/.test(document.querySelector("#chart-create .now").textContent)`,
		"rate of redirects":     `document.querySelector("#chart-redirects .now").textContent === "0/s"`,
		"no redirect latency":   `document.querySelector("#chart-redirect .now").textContent.startsWith("no 302 in 5 s")`,
		"fill level":            `document.querySelector("#chart-pool .now").textContent.includes("39.0 %") && document.querySelector("#level").textContent.includes("39.0 %")`,
		"unit of a rate":        `[...document.querySelectorAll("#chart-created text")].some((e) => e.textContent === "20/s")`,
	} {
		if !browser.Of(page, chromedp.Evaluate[bool](expression)) {
			t.Errorf("%s: the expression is false: %s", what, expression)
		}
	}
}

// The page reports a lost connection and reconnects by itself. Then it shows the samples
// that it missed.
func TestDashboardReconnectsAfterRestart(t *testing.T) {
	t.Parallel()
	// The address stays free between the two servers: no outgoing connection gets its port.
	address, err := machine.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	b, page := newBoardAt(t, address, 0), browser.New(t)
	b.play(30)
	const isOld = `document.querySelector("#said").textContent.includes("values shown are old") && document.querySelector("h1").textContent === "Disconnected"`
	page.Do(chromedp.EmulateViewport(390, 844), chromedp.Navigate(b.url), browser.Becomes(`document.querySelector("h1").textContent === "ok"`))
	// Some screen readers do not announce the text of an element that was hidden before, so the page displays the empty
	// element.
	if !browser.Of(page, chromedp.Evaluate[bool](`document.querySelector("#said:empty").getClientRects().length > 0`)) {
		t.Error("the empty element for the message is not displayed")
	}
	b.history.end()
	b.server.Close()
	page.Do(browser.Becomes(isOld), browser.Becomes(`/^Last sample \d+ s ago, at \d\d:\d\d:\d\d$/.test(document.querySelector("#age").textContent)`))
	page.CheckLooks("dashboard-no-answer")

	a := New(Config{Gatherer: prometheus.NewRegistry(), Status: paged, Instance: "another"})
	again := startServer(t, a, address)
	t.Cleanup(again.Close)
	stop := run(t, a)
	t.Cleanup(stop)
	page.Do(
		browser.Becomes(`document.querySelector("h1").textContent === "page" && document.querySelector("#said").textContent === ""`),
		browser.Becomes(`document.querySelector("#instance").textContent === "another"`),
		browser.Becomes(`document.querySelectorAll("#chart-pool rect.unknown").length === 1`),
		browser.Becomes(`document.querySelector("#changes").textContent.includes("no samples for")`),
	)
}

// Without scripts the page shows the facts and reloads itself.
func TestDashboardShowsFactsWithoutScripts(t *testing.T) {
	t.Parallel()
	b, page := newBoard(t, 3), browser.New(t)
	page.Do(browser.Emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(b.url), chromedp.WaitVisible(chromedp.CSS("#facts")), chromedp.WaitVisible(chromedp.CSS("meter")),
		chromedp.WaitNotVisible(chromedp.CSS("#charts")), chromedp.WaitNotVisible(chromedp.CSS("#strips")),
		chromedp.WaitNotVisible(chromedp.CSS("#history")))
	page.Do(browser.Becomes(`document.querySelector("#facts")?.innerText.includes("812,345")`)) // the page reloads itself in the meantime
	if w := get(t, b, "/"); !strings.Contains(w.Body.String(), `<noscript><meta http-equiv="refresh"`) {
		t.Error("the page does not reload itself")
	}
}

// The page formats durations and rates in the same way as package human, which the server uses.
func TestDashboardFormatsValuesLikeServer(t *testing.T) {
	t.Parallel()
	b, page := newBoard(t, 1), browser.New(t)
	page.Do(chromedp.Navigate(b.url), browser.Becomes(`typeof duration === "function"`))
	for _, v := range []float64{0, 0.04, 0.44, 5, 9.96, 43.2, 59.96, 60, 83 * 60, 812.3, 3601, 7199, 19800, 86399.6, 12.5 * 86400, 657.4 * 86400, 2 * 365 * 86400, 1e12} {
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if got, want := browser.Of(page, chromedp.Evaluate[string]("duration("+text+")")), human.Duration(v); got != want {
			t.Errorf("%s s: the page writes %q, the server %q", text, got, want)
		}
		if v > 1e6 {
			continue // the page shortens large rates
		}
		if got, want := browser.Of(page, chromedp.Evaluate[string]("perSecond("+text+")")), human.PerSecond(v); got != want {
			t.Errorf("%s a second: the page writes %q, the server %q", text, got, want)
		}
	}
}
