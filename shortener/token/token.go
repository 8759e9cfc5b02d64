// Package token manages API tokens, which decide who may create, read and change links over HTTP.
//
// Vocabulary:
//
//   - A token has a name, scopes and a rate. Its bearer is the text that a client sends:
//     kp_ID_SECRET.
//   - A scope is a permission of a token.
//   - A [Store] keeps the tokens in the database. A [Registry] keeps a copy in memory.
//   - The version of the tokens is a number that each change of a token replaces by a random number. A poll reads the
//     version from the database. If the version has changed, the poll also reads all tokens.
//   - A renewal gives a token a new secret and a new expiry. The token keeps its id, and therefore its links.
//   - A use is a call of [Registry.Authenticate] or [Registry.Named] that succeeded.
//
// Invariants:
//
//   - The secret of a token is never stored or logged. The database contains its SHA-256 digest. The secret has 130
//     random bits, so the digest needs no salt.
//   - The row of a token is never deleted, because a link may refer to the token for ever.
//   - Only the unique index of the database decides whether a name is free. A look-up never decides this.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"keypool/internal/quota"
)

// Token describes an API token without its secret. A time is zero if its event has not happened or will never
// happen.
type Token struct {
	ID         int64
	Name       string
	Scopes     Scopes
	Rate       quota.Rate // creations per second on each server
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RevokedAt  time.Time
	LastUsedAt time.Time // truncated to the hour, so it can be before CreatedAt
}

const (
	bearerPrefix = "kp_"
	// idDigits is the minimum number of digits of an id in a bearer and in a list.
	idDigits = 8
	// maxIDDigits is the number of digits that always fit in an int64.
	maxIDDigits = 18
	maxName     = 64 // characters
)

// FormatID returns an id as it appears in a bearer and in a list: at least eight digits.
func FormatID(id int64) string { return fmt.Sprintf("%0*d", idDigits, id) }

// ParseID parses the id of a token, with or without leading zeros.
func ParseID(text string) (int64, error) {
	id, ok := parseDigits(text)
	if !ok {
		return 0, fmt.Errorf("got %q, takes the id of a token, such as %s, as `shortener token list` shows it", text, FormatID(1))
	}
	return id, nil
}

func parseDigits(text string) (int64, bool) {
	if len(text) > maxIDDigits || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0
}

// newSecret returns a secret of 130 random bits.
func newSecret() string { return rand.Text() }

func formatBearer(id int64, secret string) string { return bearerPrefix + FormatID(id) + "_" + secret }

// parseBearer splits a bearer into the id and the secret. It accepts an id only in the form that FormatID returns.
// It does not check the secret.
func parseBearer(bearer string) (id int64, secret string, ok bool) {
	rest, ok := strings.CutPrefix(bearer, bearerPrefix)
	if !ok {
		return 0, "", false
	}
	digits, secret, ok := strings.Cut(rest, "_")
	if !ok {
		return 0, "", false
	}
	id, ok = parseDigits(digits)
	return id, secret, ok && FormatID(id) == digits
}

func digestOf(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// errName reports that a text cannot be the name of a token.
var errName = errors.New("not a name of a token")

// CheckName returns an error if name cannot be the name of a token.
func CheckName(name string) error {
	n := utf8.RuneCountInString(name)
	if n < 1 || n > maxName || !utf8.ValidString(name) || strings.TrimSpace(name) != name || strings.TrimFunc(name, unicode.IsPrint) != "" {
		return fmt.Errorf("%w: got %q, takes 1 to %d printable characters without white space at the ends", errName, name, maxName)
	}
	return nil
}
