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

// CreateOnce is like Create for a request of a token with an idempotency key. If a creation with the same key succeeded
// within the last OnceMemory (24 hours), CreateOnce returns the link of that creation, and replayed is true. It returns
// this link even if the request is invalid by now, for example because its expiry has passed. CreateOnce fails with
// ErrKeyReused if that creation had another payload. It fails with ErrKeyBusy if another server is about to commit a
// creation with the same key.
func (s *Service) CreateOnce(ctx context.Context, r shortener.Request, key string) (link shortener.Link, existing, replayed bool, err error) {
	once := r.Once(key)
	for range maxRaces {
		link, existing, err = s.create(ctx, r, once)
		if !errors.Is(err, commit.ErrRepeated) && !isInvalid(err) {
			return link, existing, false, err
		}
		first, failed := s.first(ctx, once)
		if !errors.Is(failed, shortener.ErrNotFound) {
			return first, false, failed == nil, failed
		}
		if isInvalid(err) {
			return shortener.Link{}, false, false, err
		}
		// The creation that used the key has no stored link, or its key was removed meanwhile, so try again.
	}
	return shortener.Link{}, false, false, unavailable(fmt.Errorf("%w %d times, but no creation has it", commit.ErrRepeated, maxRaces))
}

// first returns the link of the first creation that used the key of once.
func (s *Service) first(ctx context.Context, once *shortener.Once) (shortener.Link, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	first, err := s.store.First(ctx, once.Owner, once.Key)
	if err == nil && first.Payload != once.Payload {
		return shortener.Link{}, shortener.ErrKeyReused
	}
	var link shortener.Link
	if err == nil {
		link, err = s.store.Lookup(ctx, first.Code)
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

// ForgetKeys removes the idempotency keys that are older than OnceMemory, at once and then every ten minutes, until ctx
// ends. Several processes may do this at the same time. ForgetKeys passes the result of each removal to note, and tries
// again after a failure.
func ForgetKeys(ctx context.Context, store shortener.Store, note func(error)) error {
	return upkeep.Repeat(ctx, forgetInterval, func(ctx context.Context) error {
		before := time.Now().Add(-shortener.OnceMemory)
		return upkeep.InParts(ctx, forgetPart, forgetTimeout, func(ctx context.Context) (int, error) {
			return store.ForgetKeys(ctx, before, forgetPart)
		})
	}, note)
}
