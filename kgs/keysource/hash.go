package keysource

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"

	"keypool/kgs"
)

// hashAttempts is how many codes one URL has. Each that is tried costs a commit, and all of
// them together are to take less than a creation may, also where a commit takes 20 ms.
const hashAttempts = 200

// hashLength is how many characters of the digest make a code: 64^6 is 68.7 billion.
const hashLength = 6

// Hash makes the code out of the URL: the first 6 characters of its digest in base64url
// (RFC 4648, section 5). On a conflict a sequence number is appended to the URL, which is
// hashed again. The URL is taken byte for byte: "?id=a" and "%3Fid%3Da" are two.
//
// A URL that is posted again conflicts with itself, so its n-th link takes n attempts, and
// after two hundred there are no more codes for it; and who knows a URL knows whether somebody made a link to it.
type Hash struct {
	Algorithm string // "md5" or "sha256"
}

var _ kgs.Generator = Hash{}

// Next does not block. It fails with [kgs.ErrNoKeys] when all codes of the URL were in use.
func (h Hash) Next(_ context.Context, url string, attempt int) (kgs.Key, error) {
	if attempt >= hashAttempts {
		return kgs.Key{}, fmt.Errorf("%w: the %d codes of this URL are in use", kgs.ErrNoKeys, hashAttempts)
	}
	text := url
	if attempt > 0 {
		// No URL holds a line break, so this is not the first attempt of any other one.
		text += "\n" + strconv.Itoa(attempt)
	}
	digest := h.digest(text)
	return kgs.Key{Code: base64.RawURLEncoding.EncodeToString(digest[:])[:hashLength], Source: kgs.SourceHash}, nil
}

// digest is the first bytes of it, more than the 36 bits that a code shows.
func (h Hash) digest(text string) [hashLength]byte {
	if h.Algorithm == "md5" {
		sum := md5.Sum([]byte(text)) //nolint:gosec // G401: as above
		return [hashLength]byte(sum[:])
	}
	sum := sha256.Sum256([]byte(text))
	return [hashLength]byte(sum[:])
}
