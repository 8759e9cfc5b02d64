package web

import (
	"bytes"
	"encoding/json"

	"github.com/labstack/echo/v4"
)

func writeJSON(c echo.Context, status int, v any) error {
	return writeJSONAs(c, mediaJSON, status, v)
}

// writeJSONAs encodes v before anything is sent, so that a failure can still become
// a 500. URLs keep their "&"; the media type and nosniff keep browsers from
// reading the answer as anything else.
func writeJSONAs(c echo.Context, media string, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.Blob(status, media, buf.Bytes())
}
