package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"keypool/internal/testenv/browser"
)

// A page that opens the next one during the wait does not fail the wait.
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
