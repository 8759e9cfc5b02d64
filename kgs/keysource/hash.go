package keysource

import (
	"context"
	"crypto/md5" //nolint:gosec // G501: no security depends on a code, and MD5 is one of the two algorithms
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"

	"keypool/kgs"
)

// HashAttempts is the number of codes that Hash makes from one URL. Each attempt needs a commit. Even if a commit takes
// 20 ms, 200 attempts take 4 s, which is below the time limit of a creation (5 s).
const HashAttempts = 200

// hashLength is the number of characters of a code. There are 64^6 codes, which is 68.7 billion.
const hashLength = 6

// Hash derives the code from the URL. The code is the first 6 characters of the digest of the URL in
// base64url (RFC 4648, section 5). After a conflict, Hash appends the number of the attempt to the URL
// and hashes again. It does not normalize the URL, so "?id=a" and "%3Fid%3Da" have different codes.
//
// If a URL already has n-1 links, its next link takes n attempts, because the first n-1 codes
// conflict. After 200 links, no code is left for the URL. Anyone who knows a URL can compute its
// codes, and find out whether the URL has a link.
type Hash struct {
	Algorithm string // name of the hash function: "md5" or "sha256"
}

var _ kgs.Generator = Hash{}

// Next does not block. It fails with [kgs.ErrNoKeys] if attempt is HashAttempts or more.
func (h Hash) Next(_ context.Context, url string, attempt int) (kgs.Key, error) {
	if attempt >= HashAttempts {
		return kgs.Key{}, fmt.Errorf("%w: the %d codes of this URL are in use", kgs.ErrNoKeys, HashAttempts)
	}
	return kgs.Key{Code: h.code(url, attempt), Source: kgs.SourceHash}, nil
}

// Attempt returns the attempt at which Next returns code for url. ok is false if no attempt returns this code.
func (h Hash) Attempt(url, code string) (attempt int, ok bool) {
	for attempt = range HashAttempts {
		if h.code(url, attempt) == code {
			return attempt, true
		}
	}
	return 0, false
}

func (h Hash) code(url string, attempt int) string {
	text := url
	if attempt > 0 {
		// No URL contains a line break, so this text is never equal to another URL.
		text += "\n" + strconv.Itoa(attempt)
	}
	digest := h.digest(text)
	return base64.RawURLEncoding.EncodeToString(digest[:])[:hashLength]
}

// digest returns the first bytes of the digest, which hold the 36 bits of a code.
func (h Hash) digest(text string) [hashLength]byte {
	if h.Algorithm == "md5" {
		sum := md5.Sum([]byte(text)) //nolint:gosec // G401: MD5 is one of the two algorithms to choose from
		return [hashLength]byte(sum[:])
	}
	sum := sha256.Sum256([]byte(text))
	return [hashLength]byte(sum[:])
}
