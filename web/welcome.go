package web

import (
	"html/template"

	"keypool/shortener/destination"
)

// welcome is what the page says about the service to a person who has not used it yet.
type welcome struct {
	Origin      string
	Bookmarklet template.URL
}

// newWelcome returns nil if the origin is unknown, because then no example would work.
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
