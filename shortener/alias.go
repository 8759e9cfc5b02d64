package shortener

import (
	"slices"
	"strings"
)

const (
	maxAlias = 16
	// maxCode is the length of the longest code that any supply makes: a UUID in base62.
	maxCode = 22
)

// reserved reports whether alias is the first part of a path that this service
// serves, or may come to serve, itself. Case does not matter: somebody who types
// /Admin should not find a stranger's link.
func reserved(alias string) bool {
	return slices.Contains([]string{
		"shorten", "healthz", "livez", "readyz", "metrics", "status",
		"debug", "api", "admin", "static", "assets", "docs",
	}, strings.ToLower(alias))
}

// routed reports whether code is a path that this service serves itself. Of what is
// reserved only these can be keys that nobody could follow, and no key is in another
// case than the path.
func routed(code string) bool { return code == "shorten" || code == "healthz" }

// checkAlias returns an *InvalidError for a code that a user may not choose.
func checkAlias(alias string) error {
	switch {
	case alias == "" || len(alias) > maxAlias:
		return &InvalidError{Field: "alias", Reason: "must be 1 to 16 characters long"}
	case !isWord(alias):
		return &InvalidError{Field: "alias", Reason: "must consist of the letters A-Z and a-z, digits, _ and - only"}
	case reserved(alias):
		return &InvalidError{Field: "alias", Reason: "is reserved for this service; choose another"}
	}
	return nil
}

// plausible reports whether code could be the code of a link at all. A scan of
// other paths is answered without asking the store.
func plausible(code string) bool {
	return code != "" && len(code) <= maxCode && isWord(code)
}

// isWord reports whether s has no other characters than a code may have, be it an alias,
// base62 or base64url (RFC 4648, section 5); the parts of a host name have the same. Every
// request asks that of some strings, and strings.Trim would first make a table each time.
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
