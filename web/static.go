package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// staticFile is a file that is served as it is.
type staticFile struct {
	path, media string
	content     []byte
}

func staticFiles() []staticFile {
	return []staticFile{
		{"/openapi.yaml", "application/yaml", asset("openapi.yaml")},
		{"/robots.txt", "text/plain; charset=utf-8", asset("robots.txt")},
		{"/favicon.ico", "image/x-icon", asset("favicon.ico")},
	}
}

func (f staticFile) serve(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=86400")
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.Blob(http.StatusOK, f.media, f.content)
}
