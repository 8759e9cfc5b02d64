package shortener

import (
	"slices"
	"strings"
)

const (
	maxAlias = 16
	// maxCode is the length of the longest key of any key source: a UUID in base62.
	maxCode = 22
)

// reserved reports whether alias is the first part of a path that this service serves
// or may serve later. Letter case does not matter: a user who types /Admin must not
// follow a link of another user.
func reserved(alias string) bool {
	return slices.Contains([]string{
		"shorten", "healthz", "livez", "readyz", "metrics", "status",
		"debug", "api", "admin", "static", "assets", "docs",
	}, strings.ToLower(alias))
}

// routed reports whether code equals a path that this service serves, so that a link
// with this key could not be followed. The other reserved names are not served, and
// paths are case-sensitive.
func routed(code string) bool { return code == "shorten" || code == "healthz" }

// checkAlias returns an *InvalidError if a user may not choose alias.
func checkAlias(alias string) error {
	switch {
	case alias == "" || len(alias) > maxAlias:
		return &InvalidError{Field: "alias", Reason: "must be 1 to 16 characters long"}
	case !isWord(alias):
		return &InvalidError{Field: "alias", Reason: "must contain only the letters A-Z and a-z, digits, _ and -"}
	case reserved(alias):
		return &InvalidError{Field: "alias", Reason: "is reserved for this service; choose another"}
	}
	return nil
}

// plausible reports whether code could be the code of a link. Other codes are answered
// without a look-up.
func plausible(code string) bool {
	return code != "" && len(code) <= maxCode && isWord(code)
}

// isWord reports whether s contains only characters of codes: those of aliases, base62
// and base64url (RFC 4648, section 5). The labels of a host name have the same ones.
// It runs several times per request; strings.Trim would build a table each time.
func isWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
