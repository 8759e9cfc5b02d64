package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"keypool/internal/testenv/browser"
	"keypool/shortener/visits"
)

// visitedLinks returns Visits in which the links with these codes have visits on each of the last days.
func visitedLinks(t *testing.T, codes ...string) *Visits {
	t.Helper()
	v := newVisits(t)
	part := visits.Part{Writer: "test", Sequence: 1}
	for day := range int64(40) {
		for _, code := range codes {
			n := visits.Count{Human: day * day % 97, Bot: day % 7}
			part.Rows = append(part.Rows, visits.Row{Code: code, Hour: time.Now().Unix()/3600 - 24*day, Count: n})
		}
	}
	if err := errors.Join(v.Store.Register(t.Context(), part.Writer), v.Store.Apply(t.Context(), part)); err != nil {
		t.Fatal(err)
	}
	return v
}

// brokenDates counts those dates below the chart that do not fit on one line.
const brokenDates = `[...document.querySelectorAll(".axis :first-child, .axis :last-child")]
  .filter((e) => e.offsetHeight > 2 * parseFloat(getComputedStyle(e).fontSize)).length`

// On every screen and in both colour schemes, the pages for links do not scroll sideways and their texts have enough
// contrast.
func TestUIFitsEveryScreen(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", func(c *PublicConfig) { c.Visits = visitedLinks(t, "sixteen-letters_", "gone") }), browser.New(t)
	bearer := s.bearer(t, "a-team-with-a-rather-long-name-for-a-token", ownScopes)
	long := "https://a-rather-long-host-name.of-some-company.example/a/path/" + strings.Repeat("segment-", 20) + "?with=a&query=string"
	for _, body := range []string{
		`{"url":"` + long + `","alias":"sixteen-letters_","title":"` + strings.Repeat("A title with many words ", 8) + `","tags":["one","a-long-tag-of-32-characters-----","drei"],"editable":true}`,
		`{"url":"https://go.dev/doc","alias":"plain"}`, `{"url":"https://go.dev/","alias":"gone","expires_in":"24h","title":"Go"}`,
	} {
		if r := s.create(t, body, "Authorization", "Bearer "+bearer); r.status != http.StatusCreated {
			t.Fatalf("status %d (want 201): %s", r.status, r.body)
		}
	}
	s.do(t, http.MethodDelete, "/api/links/gone", "", "Authorization", "Bearer "+bearer)
	b.Do(chromedp.Navigate(s.url + "/admin/"))
	b.CheckLooks("sign-in")
	b.Do(signIn(s.url, bearer))
	pages := map[string]string{
		"list": s.url + "/admin/?state=all", "none": s.url + "/admin/?q=nothing", "new": s.url + "/admin/new", "link": s.url + "/admin/code/sixteen-letters_",
		"fixed": s.url + "/admin/code/plain", "deleted": s.url + "/admin/code/gone", "delete": s.url + "/admin/code/sixteen-letters_/delete",
		"missing": s.url + "/admin/code/nothing", "operator-list": s.admin + "/?state=all", "operator-new": s.admin + "/new",
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Do(browser.Scheme(scheme))
		for device, width := range map[string]int64{"phone": 390, "desktop": 1280} {
			b.Do(chromedp.EmulateViewport(width, 800))
			for page, url := range pages {
				b.Do(chromedp.Navigate(url), browser.Evaluate(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
				b.CheckLooks(page + "-" + device + "-" + scheme)
				if n := browser.Of(b, chromedp.Evaluate[int](brokenDates)); n > 0 {
					t.Errorf("%s-%s: %d dates below the chart of the visits have a line break", page, device, n)
				}
			}
		}
	}
}
