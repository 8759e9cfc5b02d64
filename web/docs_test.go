package web

import (
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"keypool/internal/testenv/browser"
)

// The page shows each path, summary, parameter, status, header, schema, member and example of the description.
func TestDocsPageShowsWholeOpenAPIDocument(t *testing.T) {
	t.Parallel()
	s, doc := newSite(t, nil), document(t)
	r := s.do(t, http.MethodGet, "/docs", "")
	if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
		t.Fatalf("status %d (want 200), header %v", r.status, r.header)
	}
	wantHeader(t, r, "Cache-Control", "public, max-age=3600")
	page := html.UnescapeString(r.body)
	wanted := []string{"<title>Keypool API</title>"}
	for path, item := range doc.Paths.Map() {
		wanted = append(wanted, "<code>"+path+"</code>")
		for method, o := range item.Operations() {
			wanted = append(wanted, `<span class="method">`+method+"</span> "+o.Summary)
			if method == http.MethodHead {
				continue
			}
			for _, p := range slices.Concat(item.Parameters, o.Parameters) {
				wanted = append(wanted, "<code>"+p.Value.Name+"</code>")
			}
			for status, response := range o.Responses.Map() {
				wanted = append(wanted, "<dt>"+status+"</dt>")
				for name := range response.Value.Headers {
					wanted = append(wanted, "<code>"+name+"</code>")
				}
			}
		}
	}
	for name, schema := range doc.Components.Schemas {
		wanted = append(wanted, `id="schema-`+name+`"`)
		for member, value := range schema.Value.Properties {
			wanted = append(wanted, "<code>"+member+"</code>")
			for _, v := range value.Value.Enum {
				if text, ok := v.(string); ok {
					wanted = append(wanted, text)
				}
			}
		}
	}
	for _, want := range wanted {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	for _, example := range []string{"go-home-2", "short_url", "7hQ2xK", "application/x-www-form-urlencoded", "default 256"} {
		if !strings.Contains(page, example) {
			t.Errorf("the page does not contain %s", example)
		}
	}
}

func TestProseSplitsDescriptionIntoParagraphsAndCode(t *testing.T) {
	t.Parallel()
	got := prose("A `b` c\nd.\n\n`e`\n")
	want := [][]passage{{{"A ", false}, {"b", true}, {" c\nd.", false}}, {{"e", true}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := prose(""); got != nil {
		t.Errorf("the prose of no text is %v", got)
	}
}

// Each link of the page leads to a part of the page or to a path of the service. The page needs no scripts.
func TestDocsPageLinksLeadToExistingTargets(t *testing.T) {
	t.Parallel()
	s, b := newSite(t, nil), browser.New(t)
	b.Do(
		browser.Emulate(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(s.url+"/docs"),
		chromedp.Click(chromedp.CSS(`a[href="#schemas"]`)),
		chromedp.Click(chromedp.CSS(".docs summary")),
		chromedp.WaitVisible(chromedp.CSS("details .answers dt")),
	)
	dead := browser.Of(b, chromedp.Evaluate[string](`[...document.querySelectorAll(".docs a")].map((a) => a.getAttribute("href"))
		.filter((href) => href.startsWith("#") ? !document.getElementById(href.slice(1)) : href !== "/openapi.yaml").join(" ")`))
	if dead != "" {
		t.Errorf("these links lead nowhere: %s", dead)
	}
}
