package web

import (
	"html/template"

	"keypool/shortener/destination"
)

// welcome holds the values of one section of the page at /. The section shows other ways to create links.
type welcome struct {
	Origin      string
	Bookmarklet template.URL
}

// newWelcome returns nil if the origin is unknown, because the curl command and the bookmarklet contain the origin.
func newWelcome(self destination.Origin) *welcome {
	if self.IsZero() {
		return nil
	}
	script := "javascript:location.href='" + self.String() + "/?url='+encodeURIComponent(location.href)"
	return &welcome{
		Origin:      self.String(),
		Bookmarklet: template.URL(script), //nolint:gosec // an origin consists of a scheme, a host and a port, without quotes
	}
}
