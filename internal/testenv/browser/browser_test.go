package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"keypool/internal/testenv/browser"
)

// Becomes must continue to wait if a page opens another page.
func TestBecomesWaitsForTheNextPage(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	for i := range 5 {
		mux.HandleFunc(fmt.Sprintf("/%d", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<title>%d</title><script>setTimeout(() => { location = "/%d"; }, 50)</script>`, i, i+1)
		})
	}
	mux.HandleFunc("/5", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>last</title>`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	browser.New(t).Do(chromedp.Navigate(server.URL+"/0"), browser.Becomes(`document.title === "last"`))
}

// A link moves the focus to a field. The key that activates the link must not also reach this field. With a real
// keyboard, only the link receives the key.
func TestPressActivatesOneElement(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>ready</title><form onsubmit="document.title = 'submitted'; return false"><input id="field"></form>
			<a id="link" href="#" onclick="field.focus(); return false">link</a><script>link.focus()</script>`)
	}))
	t.Cleanup(server.Close)
	b := browser.New(t)
	b.Do(chromedp.Navigate(server.URL), browser.Press(kb.Enter), browser.Becomes(`document.activeElement === field`))
	if title := browser.Of(b, chromedp.Title()); title != "ready" {
		t.Errorf("the page is %s after the key of the link, want ready", title)
	}
	b.Do(browser.Press(kb.Enter), browser.Becomes(`document.title === "submitted"`))
}
