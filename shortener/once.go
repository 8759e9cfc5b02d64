package shortener

import (
	"crypto/sha256"
	"encoding/json"
	"time"
)

// OnceMemory is how long a store keeps the idempotency key of a creation.
const OnceMemory = 24 * time.Hour

// Once makes a creation happen at most once. The store inserts the link and the idempotency key in one
// transaction.
type Once struct {
	Owner   int64  // id of the token of the request
	Key     string // idempotency key, which is unique among the keys of the owner
	Payload [sha256.Size]byte
}

// First is the creation that used an idempotency key first.
type First struct {
	Code    string
	Payload [sha256.Size]byte
}

// payload is what the client sent in a Request. During an upgrade, servers of two releases may get the same request, so a member
// never changes its name, and a request without a member has the digest that it had before the member existed.
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

// Once returns the value of Link.Once with which the creation happens at most once with the given idempotency key. The payload
// is a digest of everything that the client sent.
func (r *Request) Once(key string) *Once {
	b, err := json.Marshal(payload{
		URL: r.URL, Alias: r.Alias, ExpiresAt: r.ExpiresAt, ExpiresIn: r.ExpiresIn,
		Title: r.Title, Tags: r.Tags, Editable: r.Editable, Redirect: r.Redirect, Forward: r.Forward,
	})
	if err != nil { // the members are strings, numbers and booleans
		panic("shortener: encode a request: " + err.Error())
	}
	return &Once{Owner: r.Owner, Key: key, Payload: sha256.Sum256(b)}
}
