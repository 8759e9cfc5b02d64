package api

import (
	"net/http"
	"strings"

	"keypool/web/internal/problem"
)

const (
	minIdempotencyKey = 16
	maxIdempotencyKey = 64
)

// idempotencyKey returns the key in the Idempotency-Key header, or "" if the request has no such header
// (draft-ietf-httpapi-idempotency-key-header). The header is a string of RFC 9651: printable ASCII in quotes.
func idempotencyKey(r *http.Request) (string, error) {
	given := r.Header["Idempotency-Key"]
	if len(given) == 0 {
		return "", nil
	}
	key, quoted := strings.CutPrefix(given[0], `"`)
	key, closed := strings.CutSuffix(key, `"`)
	printable := !strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
	if len(given) > 1 || !quoted || !closed || !printable || len(key) < minIdempotencyKey || len(key) > maxIdempotencyKey {
		return "", problem.Malformed(`The Idempotency-Key header must be one string in quotes, of 16 to 64 printable ASCII characters without quotes and backslashes.`)
	}
	return strings.Clone(key), nil
}
