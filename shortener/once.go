package shortener

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"keypool/shortener/destination"
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

// Once returns what makes the request happen at most once with the given idempotency key. The payload is a digest of
// everything that the client sent.
func (r *Request) Once(key string) *Once {
	sent := *r
	sent.Self, sent.Owner, sent.MaxAge = destination.Origin{}, 0, 0
	b, err := json.Marshal(sent)
	if err != nil { // the members are strings, numbers and booleans
		panic("shortener: encode a request: " + err.Error())
	}
	return &Once{Owner: r.Owner, Key: key, Payload: sha256.Sum256(b)}
}
