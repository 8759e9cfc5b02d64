package shortener

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// IdempotencyKeyLifetime is the time for which an idempotency key belongs to the first creation that used it.
const IdempotencyKeyLifetime = 24 * time.Hour

// IdempotencyKey is the idempotency key of a creation. For IdempotencyKeyLifetime, repeated requests create at most one link,
// because the store inserts the link and the key in one transaction.
type IdempotencyKey struct {
	Owner   int64  // id of the token of the request
	Key     string // idempotency key, which is unique among the keys of the owner
	Payload [sha256.Size]byte
}

// FirstCreation is the creation that used an idempotency key first.
type FirstCreation struct {
	Code      string
	Payload   [sha256.Size]byte
	CreatedAt time.Time // of the link
}

// payload is the part of a Request that the client sent. During an upgrade, servers of two releases may get the same request,
// and must compute the same digest. So no member ever changes its name. A member that the client did not send is not encoded.
// Otherwise, two releases would compute different digests if only one of them has this member.
type payload struct {
	URL       string   `json:"url"`
	Alias     *string  `json:"alias,omitzero"`
	ExpiresAt *string  `json:"expires_at,omitzero"`
	ExpiresIn *string  `json:"expires_in,omitzero"`
	Title     *string  `json:"title,omitzero"`
	Tags      []string `json:"tags,omitzero"`
	Editable  *bool    `json:"editable,omitzero"`
	Redirect  *int     `json:"redirect,omitzero"`
	Forward   *string  `json:"forward,omitzero"`
}

// IdempotencyKey returns the value of Link.IdempotencyKey for a creation with the given idempotency key. The Payload of
// the result is a digest of everything that the client sent.
func (r *Request) IdempotencyKey(key string) *IdempotencyKey {
	b, err := json.Marshal(payload{
		URL: r.URL, Alias: r.Alias, ExpiresAt: r.ExpiresAt, ExpiresIn: r.ExpiresIn,
		Title: r.Title, Tags: r.Tags, Editable: r.Editable, Redirect: r.Redirect, Forward: r.Forward,
	})
	if err != nil { // cannot happen, because JSON can encode every member
		panic("shortener: encode a request: " + err.Error())
	}
	// An HTML form can contain bytes that are not valid UTF-8. JSON replaces each of these bytes by U+FFFD, so two
	// different texts may have the same JSON. Therefore the digest also includes a quoted form of such a text.
	for _, text := range r.texts() {
		if !utf8.ValidString(text) {
			b = strconv.AppendQuote(b, text)
		}
	}
	return &IdempotencyKey{Owner: r.Owner, Key: key, Payload: sha256.Sum256(b)}
}

// texts returns the texts that the client sent.
func (r *Request) texts() []string {
	texts := append([]string{r.URL}, r.Tags...)
	for _, text := range []*string{r.Alias, r.ExpiresAt, r.ExpiresIn, r.Title, r.Forward} {
		if text != nil {
			texts = append(texts, *text)
		}
	}
	return texts
}
