package admin

import (
	"net/http"
	"strings"

	"keypool/web/internal/reply"
)

// isForeign reports whether a page of another origin sent the request. The listener has no login. Without this check,
// such a page could start profiles and searches for links through the browser of an operator, although the page
// could not read the answers. isForeign returns false if a person follows a link from another site to a page of the
// listener.
//
// isForeign also returns false if the request has no Sec-Fetch headers. Browsers send these headers only over HTTPS and
// to loopback addresses. Other clients do not send them.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return !isPageLoad(r)
	}
	return false
}

// isPageLoad reports whether a browser loads a page into a tab. When a browser loads a page into a frame,
// Sec-Fetch-Mode is also navigate, but Sec-Fetch-Dest is not document. isPageLoad returns false for a path
// below /debug/, because a profile is not a page.
func isPageLoad(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		!strings.HasPrefix(r.URL.Path, "/debug/")
}

func foreign() reply.Problem {
	return reply.Problem{
		Type: reply.TypePrefix + "forbidden", Title: "Another site sent this request", Status: http.StatusForbidden,
		Detail: "A page of another site cannot use this listener. Open the address yourself.",
	}
}
