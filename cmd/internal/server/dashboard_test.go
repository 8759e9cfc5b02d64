package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
	"keypool/internal/testenv/browser"
	"keypool/internal/testenv/logbuffer"
)

// The dashboard in a browser draws the activity of a server and does not delay the stop of the server.
// Then the dashboard continues with the next server at the same address.
func TestDashboardReconnectsToNextServerAtSameAddress(t *testing.T) {
	t.Parallel()
	var log logbuffer.Buffer
	s := settings(t, sqliteURL(t), "")
	first := startLogging(t, s, &log)
	for i := range 50 {
		code := first.shorten(fmt.Sprintf("https://go.dev/%d", i))
		first.wantStatus(code, 302, fmt.Sprintf("https://go.dev/%d", i))
	}
	first.await("a full pool", fullWithBatch)
	page := browser.New(t)
	page.Do(
		chromedp.EmulateViewport(1280, 800), chromedp.Navigate("http://"+first.AdminAddr().String()),
		browser.Becomes(`document.title === "ok - Keypool"`),
		browser.Becomes(`[...document.querySelectorAll(".chart")].map((e) => e.id.slice(6)).join() ===
			"pool,runway,refilled,created,create,taken,local,redirects,redirect"`),
		browser.Becomes(`/^9,\d\d\d9\d\.\d %|^10,000100\.0 %/.test(document.querySelector("#chart-pool .now")?.textContent ?? "")`),
		// The page shows the time before it was opened: 50 links, 50 redirects and their latencies.
		browser.Becomes(`document.querySelector("#chart-create path.line").getAttribute("d") !== ""`),
		browser.Becomes(`document.querySelector("#chart-redirect path.line").getAttribute("d") !== ""`),
	)
	first.stop()
	if strings.Contains(log.String(), "requests did not finish in time") {
		t.Errorf("the event stream of the dashboard delayed the stop:\n%s", log.String())
	}
	page.Do(browser.Becomes(`document.querySelector("h1").textContent === "Disconnected"`))

	s.AdminAddr = config.Address(first.AdminAddr().String())
	start(t, s)
	page.Do(
		browser.Becomes(`document.querySelector("h1").textContent === "ok"`),
		browser.Becomes(`document.querySelector("#changes").textContent.includes("no samples for")`),
		browser.Becomes(`document.querySelector("#chart-create path.line").getAttribute("d") !== ""`), // drawn from samples of the first server
	)
}

// While PostgreSQL is down, the pool in memory is full, but each creation fails.
func TestDashboardShowsOutageOfPostgreSQL(t *testing.T) {
	t.Parallel()
	database := testenv.StartPostgres(t)
	r := start(t, settings(t, database.URL, ""))
	r.await("a full pool", fullWithBatch)
	page := browser.New(t)
	page.Do(chromedp.Navigate("http://"+r.AdminAddr().String()), browser.Becomes(`document.title === "ok - Keypool"`))
	database.Kill()
	page.Do(browser.Becomes(`document.title === "failing - Keypool"`),
		browser.Becomes(`document.querySelector("#strip-state strong.poor")?.textContent === "failing"`),
		browser.Becomes(`document.querySelector("#facts").textContent.includes("Creationsfail")`))
	for name, width := range map[string]int64{"phone": 390, "desktop": 1280} {
		page.Do(chromedp.EmulateViewport(width, 844))
		page.CheckLooks("dashboard-failing-" + name)
	}
	database.Restart()
	page.Do(browser.Becomes(`document.title === "ok - Keypool"`))
}

// The dashboard of a worker leaves out the parts that a worker does not have.
func TestDashboardOfWorkerOmitsServerParts(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), testenv.RedisURL(t))
	w, err := app.StartKGS(t.Context(), config.KGS{Common: s.Common}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Errorf("stop the worker: %v", err)
		}
	})
	page := browser.New(t)
	page.Do(
		chromedp.EmulateViewport(1280, 800), chromedp.Navigate("http://"+w.AdminAddr().String()),
		browser.Becomes(`document.title === "ok - Keypool"`),
		browser.Becomes(`document.querySelector("#chart-pool .now")?.textContent?.startsWith("10,000100.0 %")`),
		browser.Becomes(`document.querySelectorAll("#chart-refilled path.line").length === 1`),
	)
	if strip := browser.Of(page, chromedp.Evaluate[string](`document.querySelector("#strip-state").textContent`)); strings.Contains(strip, "failing") {
		t.Errorf("the dashboard shows the start of a worker as a failure: %s", strip)
	}
	const parts = `[...document.querySelectorAll(".chart, .strip:not(.axis)")].map((e) => e.id).join()`
	if got := browser.Of(page, chromedp.Evaluate[string](parts)); got != "strip-state,strip-epoch,chart-pool,chart-runway,chart-refilled" {
		t.Errorf("the dashboard of a worker has the parts %s", got)
	}
	facts := browser.Of(page, chromedp.Text(chromedp.CSS("#facts")))
	for _, absent := range []string{"Serving", "breaker", "local batch", "Taken"} {
		if strings.Contains(facts, absent) {
			t.Errorf("the dashboard of a worker contains %q: %s", absent, facts)
		}
	}
	page.Screenshot("dashboard-worker")
}
