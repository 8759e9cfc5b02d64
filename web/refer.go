package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"keypool/web/internal/media"
)

// refers reports whether the answer to a request is a redirect to page, the URL of a page of the operator. If page is
// empty, the operator has no such page. Only browsers are redirected. Other clients get the usual answer.
func refers(c echo.Context, page string) bool {
	return page != "" && media.WantsPage(c.Request())
}

// refer redirects to page. The answer is not cached: if the code is unknown, a link with this code may be created a
// moment later.
func refer(c echo.Context, page string) error {
	h := c.Response().Header()
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(echo.HeaderLocation, page)
	return c.NoContent(http.StatusFound)
}

// reportLink returns the URL at which a person reports the link of a preview. The argument report is the URL of the
// operator for reports. If this URL is an http or https URL, reportLink appends the code of the link to the query, as
// code=CODE. If it is a mailto URL, reportLink appends the short URL as the body of the mail (RFC 6068). The result is
// "" if report is empty.
func reportLink(report string, a *preview) string {
	if report == "" {
		return ""
	}
	parameter := "code=" + url.QueryEscape(a.Code)
	if strings.HasPrefix(report, "mailto:") {
		parameter = "body=" + url.PathEscape(a.ShortURL)
	}
	before, fragment, hasFragment := strings.Cut(report, "#")
	separator := "?"
	if strings.Contains(before, "?") {
		separator = "&"
	}
	link := before + separator + parameter
	if hasFragment {
		link += "#" + fragment
	}
	return link
}
