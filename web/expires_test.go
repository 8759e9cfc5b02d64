package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"keypool/internal/testenv/browser"
)

// The expiry field offers only expiries that the service accepts. If the address of the page contains an expiry, the field
// shows this expiry, or the reason why the service would refuse it.
func TestPageOffersOnlyExpiriesThatServiceAccepts(t *testing.T) {
	t.Parallel()
	const (
		short = ", After 1 hour, After 1 day, After 7 days"
		long  = short + ", After 30 days, After 365 days"
		month = "[After 30 days]"
	)
	option := regexp.MustCompile(`<option value="[^"]*"( selected)?>(.*)</option>`)
	for maxAge, pages := range map[time.Duration][]struct{ expiresIn, choices, refusal string }{ // the selected choice is in brackets
		0: {
			{"", "[Never]" + long, ""},
			{"24h", strings.Replace("Never"+long, "After 1 day", "[After 1 day]", 1), ""},
			{"3600", strings.Replace("Never"+long, "After 1 hour", "[After 1 hour]", 1), ""},
			{"48h", "Never" + long + ", [After 2 days]", ""},
			{"131401.5", "Never" + long + ", [After 1 day 12 hours 30 minutes 1 second]", ""},
			{"soon", "[Never]" + long, "The expiry must be a number of seconds or a duration"},
			{"0.5", "[Never]" + long, "The expiry must lie at least one second in the future"},
			{strings.Repeat("9", 3000), "[Never]" + long, "The expiry must lie within the next 100 years"},
		},
		720 * time.Hour: {
			{"", month + short, ""},
			{"720h", month + short, ""},
			{"48h", "After 30 days" + short + ", [After 2 days]", ""},
			{"721h", month + short, "The expiry must lie within 720h, the maximum lifetime of a link that is created without a token"},
		},
		90 * time.Second:   {{"", "[After 1 minute 30 seconds]", ""}},
		876000 * time.Hour: {{"", "[After 36,500 days]" + long, ""}},
	} {
		s := newSite(t, func(c *PublicConfig) { c.Limits.AnonymousMaxAge = maxAge })
		for _, tt := range pages {
			r := s.do(t, http.MethodGet, "/?"+url.Values{"expires_in": {tt.expiresIn}}.Encode(), "")
			var choices []string
			for _, found := range option.FindAllStringSubmatch(r.body, -1) {
				if found[1] != "" {
					found[2] = "[" + found[2] + "]"
				}
				choices = append(choices, found[2])
			}
			if got := strings.Join(choices, ", "); got != tt.choices {
				t.Errorf("with the maximum %v, the choices for %.20q are %s, want %s", maxAge, tt.expiresIn, got, tt.choices)
			}
			_, refusal, refused := strings.Cut(r.body, `id="expires_in-error">`)
			if refused != (tt.refusal != "") || !strings.HasPrefix(refusal, tt.refusal) || r.status != http.StatusOK {
				t.Errorf("with the maximum %v, the page for %.20q has status %d and the reason %.80q, want %q", maxAge, tt.expiresIn, r.status, refusal, tt.refusal)
			}
		}
	}
}

// If the address of the page contains an expiry, the link gets this expiry, although it is none of the usual choices.
func TestPageCreatesLinkWithExpiryFromPageAddress(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, func(c *PublicConfig) { c.Limits.AnonymousMaxAge = 720 * time.Hour }), browser.New(t)
	created := func(alias, query string, want time.Duration) {
		t.Helper()
		b.Do(
			chromedp.Navigate(fmt.Sprintf("%s/?url=https://go.dev/&alias=%s%s", s.url, alias, query)),
			chromedp.Click(chromedp.CSS("form button")),
			browser.Becomes(`document.activeElement.id === "result-title"`),
		)
		link, err := s.store.Lookup(t.Context(), alias)
		if got := link.ExpiresAt.Sub(link.CreatedAt); err != nil || got != want {
			t.Errorf("the link expires after %v, want %v: %v", got, want, err)
		}
	}
	created("prepared", "&expires_in=48h", 48*time.Hour)
	created("usual", "", 720*time.Hour)
	b.Do(chromedp.Navigate(s.url), browser.Evaluate(`document.querySelector("details").open = true`))
	b.CheckLooks("expires")
	b.Do(
		chromedp.Navigate(s.url+"/?url=https://go.dev/&expires_in=721h"),
		browser.Becomes(`document.activeElement.id === "expires_in" && document.activeElement.ariaInvalid === "true"`),
	)
	b.CheckLooks("expires-refused")
}

// The server refuses a long body before it reads the fields. The form must keep the expiry, although it is none of the usual
// choices. Otherwise, the next attempt would create a link that expires later.
func TestPageKeepsExpiryIfServerRefusesLongBody(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		chromedp.Navigate(s.url+"/?url=https://go.dev/&expires_in=48h"),
		browser.Becomes(`document.activeElement.id === "url"`),
		browser.Evaluate(`document.querySelector("#url").value = "https://go.dev/" + "\u00e9".repeat(4000)`),
		chromedp.Click(chromedp.CSS("form button")),
		browser.Becomes(`document.activeElement.id === "form-error" && document.querySelector("#url").value.length === 4015`),
		browser.Becomes(`document.querySelector("#expires_in").value === "48h" && document.querySelector("details").open`),
		browser.Becomes(`document.querySelector("#expires_in").selectedOptions[0].text === "After 2 days"`),
	)
	b.CheckLooks("expires-kept")
}
