package web

import (
	"net/http"

	"keypool/web/internal/shell"

	"github.com/labstack/echo/v4"
)

// staticFile is an embedded file that the listener serves unchanged.
type staticFile struct {
	path, media string
	content     []byte
}

func staticFiles() []staticFile {
	return []staticFile{
		{"/openapi.yaml", "application/yaml", shell.Asset(assets, "assets/openapi.yaml")},
		{"/robots.txt", "text/plain; charset=utf-8", shell.Asset(assets, "assets/robots.txt")},
		{"/favicon.ico", "image/x-icon", shell.Favicon()},
	}
}

func (f staticFile) serve(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=86400")
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.Blob(http.StatusOK, f.media, f.content)
}
