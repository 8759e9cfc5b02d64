package shortener

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
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

// errRepeated reports that the idempotency key of a creation was used before.
var errRepeated = fmt.Errorf("%w: the idempotency key was used before", ErrNotWritten)

// CreateOnce is like Create for a request of a token with an idempotency key. If the key was used in the last OnceMemory
// for a creation that succeeded, CreateOnce returns the link of that creation, and replayed is true. This holds even if
// the request is no longer valid, because its expiry has passed or its host is blocked since. CreateOnce fails with
// ErrKeyReused if that creation had another payload, and with ErrKeyBusy if another server is about to commit a
// creation with the same key.
func (s *Service) CreateOnce(ctx context.Context, r Request, key string) (link Link, existing, replayed bool, err error) {
	once := r.Once(key)
	for range maxRaces {
		link, existing, err = s.create(ctx, r, once)
		if !errors.Is(err, errRepeated) && !isInvalid(err) {
			return link, existing, false, err
		}
		first, failed := s.first(ctx, once)
		if !errors.Is(failed, ErrNotFound) {
			return first, false, failed == nil, failed
		}
		if isInvalid(err) {
			return Link{}, false, false, err
		}
		// The link of the creation that used the key is not stored, or not any more.
	}
	return Link{}, false, false, unavailable(fmt.Errorf("%w %d times, but no creation has it", errRepeated, maxRaces))
}

// first returns the link of the creation that used the key of once first.
func (s *Service) first(ctx context.Context, once *Once) (Link, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	first, err := s.store.First(ctx, once.Owner, once.Key)
	if err == nil && first.Payload != once.Payload {
		return Link{}, ErrKeyReused
	}
	var link Link
	if err == nil {
		link, err = s.store.Lookup(ctx, first.Code)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		err = unavailable(err)
	}
	return link, err
}

const (
	forgetInterval = 10 * time.Minute
	forgetPart     = 1000 // keys that one statement removes
	forgetTimeout  = 5 * time.Second
)

// ForgetKeys removes the idempotency keys that are older than OnceMemory, every ten minutes, until ctx ends. Any number of
// processes may do this. It passes the result of each removal to note, and tries again after a failure.
func ForgetKeys(ctx context.Context, store Store, note func(error)) error {
	ticker := time.NewTicker(forgetInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := forget(ctx, store, time.Now().Add(-OnceMemory)); ctx.Err() == nil {
			note(err)
		}
	}
}

func forget(ctx context.Context, store Store, before time.Time) error {
	for {
		part, cancel := context.WithTimeout(ctx, forgetTimeout)
		n, err := store.ForgetKeys(part, before, forgetPart)
		cancel()
		if err != nil || n < forgetPart {
			return err
		}
	}
}
