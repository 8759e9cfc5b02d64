package config

import (
	"encoding"
	"net/mail"
	"net/url"
	"strings"
)

// These settings name hosts and pages. Package destination decides which hosts and URLs are valid, and this package does not
// import it. Therefore [Server.Complete] checks the settings with functions that the server passes in [Rules].
var (
	_ encoding.TextUnmarshaler = (*OwnHosts)(nil)
	_ encoding.TextUnmarshaler = (*PageURL)(nil)
)

// OwnHosts are host names and IP addresses of this service, besides the host of BASE_URL. A link must not lead to them.
type OwnHosts []string

const takesOwnHosts = "host names or IP addresses without scheme, port or path, separated by commas, such as go.example,www.go.example"

// UnmarshalText takes hosts separated by commas. White space around a host is ignored. Complete checks the
// hosts.
func (h *OwnHosts) UnmarshalText(text []byte) error {
	*h = nil
	for field := range strings.SplitSeq(string(text), ",") {
		if field = strings.TrimSpace(field); field != "" {
			*h = append(*h, field)
		}
	}
	return nil
}

// PageURL is a page that this service refers people to. The URL is public, so it must not contain user information.
type PageURL string

const (
	takesPageURL   = "http://host[:port]/... or https://host[:port]/..., without user information"
	takesReportURL = takesPageURL + ", or mailto:user@host without a body"
)

// UnmarshalText takes any text. Complete checks the URL.
func (p *PageURL) UnmarshalText(text []byte) error {
	*p = PageURL(text)
	return nil
}

// normalize checks a URL and converts it to ASCII. If orMail is true, the URL may also be a mailto
// URL.
func (p *PageURL) normalize(name string, page func(text string) (string, bool), orMail bool) error {
	if *p == "" {
		return nil
	}
	takes := takesPageURL
	if orMail {
		takes = takesReportURL
		if normal, ok := mailURL(string(*p)); ok {
			*p = PageURL(normal)
			return nil
		}
	}
	ascii, ok := page(string(*p))
	if !ok {
		return &Error{name, p.shown(), takes}
	}
	*p = PageURL(ascii)
	return nil
}

// shown returns the URL for an error text, without user information.
func (p *PageURL) shown() string {
	if text := string(*p); strings.HasPrefix(text, "mailto:") || !strings.Contains(text, "@") {
		return text
	}
	return Redacted(string(*p))
}

// mailURL returns a mailto URL (RFC 6068) with one or more recipients. ok is false if text is not such a URL. ok is
// also false if the URL has a body, because the server adds a body.
func mailURL(text string) (normal string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "mailto" || u.Fragment != "" {
		return "", false
	}
	to, err := url.PathUnescape(u.Opaque)
	if err != nil {
		return "", false
	}
	if _, err := mail.ParseAddressList(to); err != nil || strings.ContainsAny(to, "<> ") {
		return "", false
	}
	fields, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", false
	}
	for name := range fields {
		if strings.EqualFold(name, "body") {
			return "", false
		}
	}
	return u.String(), true
}
