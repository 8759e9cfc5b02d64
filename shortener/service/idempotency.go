package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/internal/upkeep"
	"keypool/shortener"
	"keypool/shortener/commit"
)

// CreateIdempotent is like Create, for a request with a token and an idempotency key. If an earlier creation with the same
// key succeeded within the last IdempotencyKeyLifetime (24 hours), CreateIdempotent returns the link of the earlier
// creation, and replayed is true. It returns this link even if the request is invalid by now, for example because its
// expiry has passed. CreateIdempotent can block for longer than Create, because it waits up to five seconds for a slot
// before it looks up the earlier creation.
//
// In addition to the errors of Create, CreateIdempotent fails with these errors:
//
//   - ErrKeyReused if the client sent other data for the earlier creation. Then the result is the link of the earlier
//     creation, or a link without a code if the link of the earlier creation cannot be read.
//   - ErrKeyBusy if the commit of a concurrent creation with the same key is still in progress.
//   - an *UnavailableError if the store has the key, but has lost the link of the earlier creation.
func (s *Service) CreateIdempotent(ctx context.Context, r shortener.Request, key string) (link shortener.Link, existing, replayed bool, err error) {
	k := r.IdempotencyKey(key)
	for range maxRepeats {
		link, existing, err = s.create(ctx, r, k)
		if !errors.Is(err, commit.ErrRepeated) && !isInvalid(err) {
			return link, existing, false, err
		}
		first, failed := s.first(ctx, k)
		if !errors.Is(failed, shortener.ErrNotFound) {
			return first, false, failed == nil, failed
		}
		if isInvalid(err) {
			return shortener.Link{}, false, false, err
		}
		// Try again. Either the key was removed meanwhile, or the store has no link of the creation that used the key. With
		// Citus, the key and the link can be on two nodes. Then the link may be committed later than the key, or a failover
		// of one node may have lost the link.
	}
	return shortener.Link{}, false, false, unavailable(fmt.Errorf("%w, but the link of the first creation is missing", commit.ErrRepeated))
}

const (
	// maxRepeats is the maximum number of times that CreateIdempotent tries to create the link.
	maxRepeats = 10
	// maxRepetitions is the maximum number of look-ups of idempotency keys that a server makes at the same time.
	// maxRepetitionsOfToken is the same limit for one token. Without these limits, repetitions could occupy all
	// connections to the database, so that no link is created.
	maxRepetitions        = 6
	maxRepetitionsOfToken = 4
	// repetitionWait is the maximum time that a look-up waits for a slot. A bulk request handles 128 lines at the same
	// time, which share the slots of one token. So lines begin to fail if a look-up takes longer than 5 s x 4 / 128 = 0.16 s.
	// While four tokens send bulk requests, this limit is 5 s x 6 / 512 = 0.06 s.
	repetitionWait = 5 * time.Second
)

// first waits for a slot, and returns the link of the creation that used the key before. It fails with these errors:
//
//   - an *UnavailableError if no slot becomes free, or if the store does not answer;
//   - ErrNotFound if the store has no such key, or has lost the link;
//   - ErrKeyReused if the creation had other data. Then first also returns the link, or a link without a code if it
//     cannot read the link.
func (s *Service) first(ctx context.Context, key *shortener.IdempotencyKey) (shortener.Link, error) {
	end, err := begin(ctx, s.repetitions, Actor{Token: key.Owner}, repetitionWait)
	if err != nil {
		return shortener.Link{}, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	first, err := s.store.FirstCreation(ctx, key.Owner, key.Key)
	var link shortener.Link
	if err == nil {
		link, err = s.store.Lookup(ctx, first.Code)
		if err == nil && !link.CreatedAt.Equal(first.CreatedAt) { // a later creation with the same alias
			link, err = shortener.Link{}, shortener.ErrNotFound
		}
		if first.Payload != key.Payload {
			return link, shortener.ErrKeyReused
		}
	}
	if err != nil && !errors.Is(err, shortener.ErrNotFound) {
		err = unavailable(err)
	}
	return link, err
}

const (
	forgetInterval = 10 * time.Minute
	forgetPart     = 1000 // maximum number of keys that one statement removes
	forgetTimeout  = 5 * time.Second
)

// ForgetKeys removes the idempotency keys that are older than IdempotencyKeyLifetime, at once and then every ten minutes, until ctx
// ends. Several processes may call ForgetKeys at the same time. ForgetKeys passes the result of each removal to note,
// and tries again after a failure.
func ForgetKeys(ctx context.Context, store shortener.Store, note func(error)) error {
	return upkeep.Repeat(ctx, forgetInterval, func(ctx context.Context) error {
		before := time.Now().Add(-shortener.IdempotencyKeyLifetime)
		return upkeep.InParts(ctx, forgetPart, forgetTimeout, func(ctx context.Context) (int, error) {
			return store.ForgetKeys(ctx, before, forgetPart)
		})
	}, note)
}
